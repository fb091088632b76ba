"""The report of a session on disk."""

import json
from pathlib import Path
from typing import Any

import pytest

from studio.core.export import export_report
from studio.core.history import History
from studio.core.session import Session
from tests.tiny import tiny_folder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.report.schema import validate_report

SECRET = "the words of the person"


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, History]:
    session = Session(KVCacheConfig(method="skvq", skvq_window=16))
    session.load(tiny_folder(tmp_path_factory.mktemp("models") / "tiny-llama"))
    history = History()
    for step in session.reply(SECRET, max_tokens=20):
        history.append(step)
    return session, history


def exported(talked: tuple[Session, History], path: Path, **words: Any) -> dict[str, Any]:
    session, history = talked
    export_report(session, path, history.columns(), **words)
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def test_a_report_holds_what_the_session_knows(talked: tuple[Session, History], tmp_path: Path) -> None:
    report = exported(talked, tmp_path / "report.json", with_transcript=True)
    validate_report(report)
    session, history = talked
    snapshot = session.snapshot()
    assert snapshot is not None
    assert session.finished is not None
    assert report["model"]["name"] == "tiny-llama"
    assert report["method"]["key"] == "skvq"
    assert report["method"]["parameters"]["skvq_window"]["value"] == 16
    assert report["tokens"]["in_cache"] == snapshot.tokens
    assert report["tokens"]["last_reply"] == session.finished.reply_tokens
    assert report["totals"]["resident_bytes_measured"] == snapshot.resident_bytes
    assert [slot["gauges"]["frontier"] for slot in report["slots"]] == [snapshot.tokens // 16 * 16] * 3
    assert len(report["history"]["tokens"]) == len(history)
    assert report["machine"]["mlx_device"]
    assert [turn["role"] for turn in report["transcript"]] == [m.role for m in session.messages]
    assert report["transcript"][0]["content"] == SECRET


def test_without_transcript_no_word_of_the_person_is_in_it(
    talked: tuple[Session, History], tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    assert "transcript" not in exported(talked, path, with_transcript=False)
    assert SECRET not in path.read_text()


def test_nothing_but_the_report_is_left_in_the_folder(
    talked: tuple[Session, History], tmp_path: Path
) -> None:
    exported(talked, tmp_path / "report.json", with_transcript=True)
    exported(talked, tmp_path / "report.json", with_transcript=False)
    assert [item.name for item in tmp_path.iterdir()] == ["report.json"]


def test_without_a_model_there_is_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(VeloxQuantError, match="nothing to export yet"):
        export_report(Session(KVCacheConfig(method="plain")), tmp_path / "r.json", {}, with_transcript=False)
    assert list(tmp_path.iterdir()) == []


def test_before_the_first_message_a_report_says_what_is_unknown(
    talked: tuple[Session, History], tmp_path: Path
) -> None:
    fresh = Session(KVCacheConfig(method="skvq"))
    fresh.model = talked[0].model
    export_report(fresh, tmp_path / "r.json", {}, with_transcript=True)
    report = json.loads((tmp_path / "r.json").read_text())
    validate_report(report)
    assert report["tokens"]["last_reply"] is None
    assert report["transcript"] == []


def test_a_missing_folder_is_one_sentence(talked: tuple[Session, History], tmp_path: Path) -> None:
    session, history = talked
    with pytest.raises(VeloxQuantError) as caught:
        export_report(session, tmp_path / "gone" / "r.json", history.columns(), with_transcript=False)
    assert str(caught.value).endswith(".")
    assert "r.json" in str(caught.value)
