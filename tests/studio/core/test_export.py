"""The report of a session on disk."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlx.utils import tree_flatten

from studio.core.export import export_report
from studio.core.history import History
from studio.core.session import Session
from studio.core.taken import take
from tests.tiny import tiny_folder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.report.document import Document
from veloxquant_mlx.report.schema import validate_report
from veloxquant_mlx.steps import PrefillStep

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
    export_report(session, path, take(history), **words)
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
        export_report(
            Session(KVCacheConfig(method="plain")), tmp_path / "r.json", take(None), with_transcript=False
        )
    assert list(tmp_path.iterdir()) == []


def test_before_the_first_message_a_report_says_what_is_unknown(
    talked: tuple[Session, History], tmp_path: Path
) -> None:
    fresh = Session(KVCacheConfig(method="skvq"))
    fresh.model = talked[0].model
    export_report(fresh, tmp_path / "r.json", take(None), with_transcript=True)
    report = json.loads((tmp_path / "r.json").read_text())
    validate_report(report)
    assert report["tokens"]["last_reply"] is None
    assert report["transcript"] == []


def test_a_missing_folder_is_one_sentence(talked: tuple[Session, History], tmp_path: Path) -> None:
    session, history = talked
    with pytest.raises(VeloxQuantError) as caught:
        export_report(session, tmp_path / "gone" / "r.json", take(history), with_transcript=False)
    assert str(caught.value).endswith(".")
    assert "r.json" in str(caught.value)


@pytest.mark.parametrize("ending", ["html", "md", "csv", "pdf"])
def test_the_name_s_ending_chooses_the_form(
    ending: str, talked: tuple[Session, History], tmp_path: Path
) -> None:
    session, history = talked
    path = tmp_path / f"r.{ending}"

    def printer(document: Document) -> bytes:
        return f"%PDF of {document.title}".encode()

    export_report(session, path, take(history), with_transcript=True, printer=printer)
    start = {
        "html": "<!DOCTYPE html>",
        "md": "# Memory report",
        "csv": "tokens,slot,",
        "pdf": "%PDF of Memory",
    }
    assert path.read_text("utf-8").startswith(start[ending])
    assert (SECRET in path.read_text("utf-8")) == (ending in ("html", "md"))
    if ending == "csv":
        assert len(path.read_text("utf-8").splitlines()) == 1 + 3 * len(history)


def test_a_report_is_of_the_moment_it_was_taken_at(talked: tuple[Session, History], tmp_path: Path) -> None:
    session, history = talked
    early = History()
    for step in [PrefillStep(5, 5, replace(history.moment(5) or session.snapshot(), tokens=5))]:
        early.append(step)
    taken = take(early, [("user", "so far")], None)
    export_report(session, tmp_path / "r.json", taken, with_transcript=True)
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["tokens"]["in_cache"] == report["history"]["tokens"][-1] == 5
    assert report["transcript"] == [{"role": "user", "content": "so far"}]


def test_weights_and_peaks_are_measured_and_the_rest_predicted(
    talked: tuple[Session, History], tmp_path: Path
) -> None:
    report = exported(talked, tmp_path / "report.json", with_transcript=False)
    assert talked[0].model is not None
    arrays = [array for _, array in tree_flatten(talked[0].model.model.parameters())]
    told = report["prediction"]
    assert told["weights_measured"] and told["need_bytes"]["weights"] == sum(a.nbytes for a in arrays)
    memory = report["memory"]
    assert memory["mlx_peak_prefill_bytes_measured"] > 0 and memory["mlx_peak_decode_bytes_measured"] > 0
    assert report["speeds"]["reference"] is None


def test_an_uncompressed_reply_gives_the_speeds_beside(
    talked: tuple[Session, History], tmp_path: Path
) -> None:
    session = Session(KVCacheConfig("plain"))
    assert talked[0].model is not None
    session.load(talked[0].model.info.path)
    history = History()
    for step in session.reply("hello", max_tokens=4):
        history.append(step)
    session.configure(KVCacheConfig("skvq", skvq_window=16))
    report = exported((session, history), tmp_path / "r.json", with_transcript=False)
    assert report["speeds"]["reference"]["decode_tokens_per_second_measured"] > 0
    session.unload()
    assert session.reference is None
