"""An installation tries everything in itself; what is missing is told."""

import json
import sys
from pathlib import Path

import pytest

from studio.core import proof
from studio.core.proof import CONTENTS, importable_models, prove
from veloxquant_mlx.config import methods
from veloxquant_mlx.models.tiny import tiny_model_folder

PROMPT = "the quick brown fox jumps over the lazy dog and sleeps. " * 12


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_folder(tmp_path_factory.mktemp("proof") / "tiny-model")


def test_every_method_writes_through_the_model(model: Path) -> None:
    record = prove(model, PROMPT)
    assert record["problems"] == []
    assert record["packed"] is False
    assert list(record["replies"]) == list(methods())
    assert record["model_modules"] > 100
    for key, reply in record["replies"].items():
        assert reply["reply_tokens"] >= 1 and reply["counted_bytes"] > 0, key
    codes, plain = record["replies"]["skvq"], record["replies"]["plain"]
    assert codes["counted_bytes"] < plain["counted_bytes"]


def test_what_the_build_had_and_is_gone_is_told(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"methods": [*methods(), "lost_method"], "model_modules": [*importable_models(), "lost_model"]}
    (tmp_path / CONTENTS).write_text(json.dumps(known))
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    problems = prove(model, PROMPT)["problems"]
    assert len(problems) == 2
    assert "lost_method" in problems[0] and "lost_model" in problems[1]


def test_a_prompt_that_leaves_nothing_to_compress_is_no_proof(model: Path) -> None:
    problems = prove(model, "short")["problems"]
    assert {problem.split()[0] for problem in problems} >= {"skvq", "svdq_skvq"}


def test_a_tokenizer_that_changes_text_is_told(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "_round_trip", lambda tokenizer: False)
    assert "the tokenizer does not give back what it was given" in prove(model, PROMPT)["problems"]
