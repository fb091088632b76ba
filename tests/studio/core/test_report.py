import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from studio.core import surroundings
from studio.core.history import History
from studio.core.report import NOT_YET, build_report, write_report
from studio.core.session import Message
from tests.studio.synthetic import history, plan, reply, snapshot
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.describe import ModelInfo
from veloxquant_mlx.report.schema import validate_report
from veloxquant_mlx.steps import FinishedStep
from veloxquant_mlx.telemetry import BYTE_KINDS

FOREIGN = frozenset({1})
INFO = ModelInfo(
    path=Path.home() / "models" / "SmolLM2-135M-Instruct", name="SmolLM2-135M-Instruct", source="this app",
    format="mlx", architecture="llama", parameters=134_515_008, weight_bits=4.5, size_bytes=98_000_000,
    context=8192, slots=30, kv_slots=30, heads=3, key_dim=64, value_dim=64,
)  # fmt: skip


def finished() -> FinishedStep:
    step = list(reply(0, 300, 200, slots=4, foreign=FOREIGN))[-1]
    assert isinstance(step, FinishedStep)
    return step


def build(**changed: Any) -> dict[str, Any]:
    kept = history(slots=4, foreign=FOREIGN)
    values: dict[str, Any] = {
        "model": INFO, "compute": "CPU float32", "plan": plan(4, FOREIGN),
        "config": KVCacheConfig(method="skvq", skvq_bits_key=4), "history": kept, "snapshot": kept.snapshot,
        "speeds": finished(), "device": "Device(cpu, 0)",
    }  # fmt: skip
    return build_report(**values | changed)


def test_a_report_is_whole_and_survives_json(tmp_path: Path) -> None:
    report = build(
        conversation=[Message("user", "Why is the sky blue?"), Message("assistant", "Scattering.")]
    )
    validate_report(report)
    file = tmp_path / "report.json"
    write_report(file, report)
    assert json.loads(file.read_text(encoding="utf-8")) == report
    assert os.listdir(tmp_path) == ["report.json"]


def test_slots_and_totals_are_those_of_the_snapshot() -> None:
    report, shown = build(), snapshot(500, 4, foreign=FOREIGN)
    for slot, layer in zip(report["slots"], shown.layers, strict=True):
        assert slot["counted_bytes"] == layer.counted.as_dict() | {"total": layer.counted.total}
        assert slot["resident_bytes_measured"] == layer.resident_bytes
        assert slot["reference_16_bit_bytes_counted"] == layer.reference_bytes
        assert slot["gauges"] == layer.gauges and slot["replaced"] is layer.replaced
    assert report["totals"]["counted_bytes"]["total"] == shown.counted.total
    assert report["totals"]["resident_bytes_measured"] == shown.resident_bytes
    assert report["ratio"]["times_smaller_than_16_bits_counted"] == shown.ratio
    assert report["ratio"]["words"] == f"{shown.ratio:,.1f} times smaller than 16 bits, counted"
    assert report["memory"]["mlx_active_bytes_measured"] == shown.active_memory
    assert report["memory"]["mlx_peak_bytes_measured"] == shown.peak_memory


def test_every_parameter_is_there_in_words() -> None:
    config = KVCacheConfig(method="skvq", skvq_bits_key=4)
    method = build(config=config)["method"]
    assert method["key"] == "skvq" and method["label"] == "SKVQ"
    assert list(method["parameters"]) == [field.name for field in config.fields()]
    bits = method["parameters"]["skvq_bits_key"]
    assert (bits["value"], bits["default"], bits["unit"]) == (4, 2, "bits") and bits["label"] and bits["help"]


def test_the_plan_gives_every_slots_reason() -> None:
    told = build()["plan"]
    assert told["replaced_slots"] == 3 and told["total_slots"] == 4
    assert told["slots"][1]["reason"] == "Slot 1 keeps a 512-token window of its own."


def test_speeds_are_those_measured() -> None:
    speeds = build()["speeds"]
    assert speeds["prefill_tokens_per_second_measured"] == pytest.approx(180)
    assert speeds["decode_tokens_per_second_measured"] == pytest.approx(14)


def test_history_columns_are_plain_numbers() -> None:
    kept = history(slots=4, foreign=FOREIGN)
    told = build(history=kept)["history"]
    assert told["tokens"] == kept.columns()["tokens"].tolist()
    for kind in BYTE_KINDS:
        assert told[kind] == kept.columns()[kind].tolist()
    assert build(history=kept.columns())["history"] == told
    none = build(history={})
    validate_report(none)
    assert none["history"]["tokens"] == []


def test_before_anything_happened_unknown_is_null_and_the_ratio_a_sentence(tmp_path: Path) -> None:
    report = build(history=History(), snapshot=None, speeds=None, device=None)
    validate_report(report)
    assert report["ratio"] == {"times_smaller_than_16_bits_counted": None, "words": NOT_YET}
    assert set(report["speeds"].values()) == {None} and set(report["memory"].values()) == {None}
    assert report["machine"]["mlx_device"] is None and report["tokens"]["last_reply"] is None
    assert "transcript" not in report
    write_report(tmp_path / "report.json", report)


def test_before_the_first_flush_there_is_no_ratio() -> None:
    report = build(snapshot=snapshot(60, 4, foreign=FOREIGN))
    assert report["ratio"] == {"times_smaller_than_16_bits_counted": None, "words": NOT_YET}


def test_an_unknown_version_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(surroundings._PACKAGES, "mlx", ("no-such-distribution-here",))
    report = build()
    validate_report(report)
    assert report["versions"]["mlx"] is None
    assert report["versions"]["mlx-lm"] and report["versions"]["python"]


def test_nothing_of_the_home_folder_or_the_machines_name_is_in_a_report() -> None:
    opened = ModelInfo(INFO.path, str(INFO.path), "opened", "mlx", "llama")
    for info in (INFO, opened):
        text = json.dumps(build(model=info))
        assert str(Path.home()) not in text
        assert os.uname().nodename not in text
        assert "SmolLM2-135M-Instruct" in text


def test_not_a_number_becomes_null_and_is_never_written(tmp_path: Path) -> None:
    kept = history(slots=2, foreign=frozenset({0, 1}))
    report = build(history=kept, snapshot=kept.snapshot, plan=plan(2, frozenset({0, 1})))
    assert set(report["history"]["frontier"]) == {None}
    report["slots"][0]["gauges"] = {"drift": float("nan")}
    file = tmp_path / "report.json"
    with pytest.raises(VeloxQuantError, match="nothing was written"):
        write_report(file, report)
    assert not file.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.pop("totals"), "'totals' is a required property"),
        (lambda r: r["totals"].pop("counted_bytes"), "at totals, 'counted_bytes' is a required property"),
        (lambda r: r["slots"][2].pop("resident_bytes_measured"), "at slots.2, 'resident_bytes_measured'"),
        (lambda r: r["versions"].pop("mlx"), "at versions, 'mlx' is a required property"),
        (lambda r: r.update(extra=1), "'extra' was unexpected"),
        (lambda r: r["history"]["codes"].pop(), "history.codes has not a row per token count"),
        (lambda r: r["history"]["codes"].__setitem__(0, None), "history.codes has a row without a figure"),
        (lambda r: r["history"].pop("tokens"), "at history, 'tokens' is a required property"),
        (lambda r: r["slots"].pop(), "the plan and the slots differ in number"),
        (lambda r: r["report"].update(version=99), "at report.version"),
        (lambda r: r["model"].update(folder="/home/someone/model"), "at model.folder"),
    ],
)
def test_what_is_missing_is_named_in_one_sentence(change: Any, said: str, tmp_path: Path) -> None:
    report = build()
    change(report)
    with pytest.raises(VeloxQuantError) as caught:
        validate_report(report)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(VeloxQuantError):
        write_report(tmp_path / "report.json", report)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        ("os.fsync", errno.ENOSPC, "the disk is full"),
        ("os.replace", errno.EACCES, "can't be written to"),
        ("tempfile.mkstemp", errno.EROFS, "can't be written to"),
        ("os.fsync", errno.EIO, "Input/output error"),
    ],
)
def test_a_failed_save_is_a_sentence_and_leaves_the_old_file(
    call: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report.json"
    file.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(call, fail)
        with pytest.raises(VeloxQuantError, match=said) as caught:
            write_report(file, build())
    assert str(caught.value).startswith("The report report.json was not saved: ")
    assert file.read_text() == "old" and os.listdir(tmp_path) == ["report.json"]


def test_a_folder_that_is_gone_and_one_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(VeloxQuantError, match="no longer there"):
        write_report(tmp_path / "gone" / "report.json", build())
    (tmp_path / "report.json").mkdir()
    with pytest.raises(VeloxQuantError, match="a folder of that name"):
        write_report(tmp_path / "report.json", build())
    assert os.listdir(tmp_path) == ["report.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(VeloxQuantError, match="can't be written to"):
            write_report(tmp_path / "report.json", build())
    finally:
        tmp_path.chmod(0o700)


def test_text_that_is_no_text_is_refused_without_a_file(tmp_path: Path) -> None:
    report = build(conversation=[Message("user", "half a character: \ud83d")])
    assert report["transcript"] == [{"role": "user", "content": "half a character: ?"}]
    report["transcript"][0]["content"] = "\ud83d"
    with pytest.raises(VeloxQuantError, match="nothing was written"):
        write_report(tmp_path / "report.json", report)
    assert not list(tmp_path.iterdir())


def test_a_history_column_is_one_line(tmp_path: Path) -> None:
    write_report(tmp_path / "report.json", build())
    lines = (tmp_path / "report.json").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith('    "tokens": [0,') for line in lines) == 1


def test_building_a_report_needs_no_qt() -> None:
    code = "import sys, studio.core.report, studio.core.history; sys.exit('PySide6' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_device_is_never_replaced_by_a_report(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(VeloxQuantError, match="no ordinary file"):
        write_report(pipe, build())
    assert pipe.is_fifo()
