"""The memory report: everything that was counted and measured in one conversation, as JSON."""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from studio.core.history import History
from studio.core.surroundings import machine, versions
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.describe import ModelInfo
from veloxquant_mlx.report.schema import FORMAT, VERSION, validate_report
from veloxquant_mlx.saving import save
from veloxquant_mlx.steps import FinishedStep, Plan
from veloxquant_mlx.telemetry import ByteCount, CacheSnapshot, LayerStats

NOT_YET = "nothing compressed yet"

UNITS: Mapping[str, str] = {
    "created": "UTC, ISO 8601",
    "machine.memory_bytes": "bytes, measured",
    "model.size_bytes": "bytes of the weight files, measured",
    "model.weight_bits": "bits of weight files per parameter, counted",
    "tokens": "tokens, counted",
    "totals.counted_bytes": "bytes by kind over all slots, counted from what the caches hold",
    "slots.counted_bytes": "bytes by kind of one slot, counted from what the cache holds",
    "resident_bytes_measured": "bytes of every array a cache holds, measured",
    "reference_16_bit_bytes_counted": "bytes of the same tokens at 16 bits without compression, counted",
    "slots.gauges": "named numbers of the method; null where unknown",
    "ratio": "16-bit bytes over counted bytes, end to end, counted",
    "speeds": "tokens per second of the last reply, measured",
    "speeds.reference": "the same of a reply through the uncompressed cache in this session, measured",
    "memory": "bytes, MLX's own statistics with the weights, measured; peak since the last reply began",
    "prediction": "bytes and tokens, predicted in closed form; weights measured where the model is loaded",
    "fidelity": "nats per token and shares, measured against the uncompressed cache; null where it was not",
    "slot_history": "the figures of every slot at every row of the history, as straight lines",
    "history.tokens": "tokens in the cache, one row per token count",
    "history.codes to history.foreign": "bytes over all slots, counted",
    "history.reference": "bytes at 16 bits, counted",
    "history.resident": "bytes, measured",
    "history.active_memory": "bytes, MLX's active memory with the weights, measured",
    "history.frontier": "tokens behind the flush frontier, smallest over the slots; null where unknown",
}
"""What the report's figures are: unit, and counted, measured or predicted."""


class _Message(Protocol):
    @property
    def role(self) -> str: ...
    @property
    def content(self) -> str: ...


def build_report(
    *,
    model: ModelInfo,
    compute: str,
    plan: Plan,
    config: KVCacheConfig,
    history: History | Mapping[str, np.ndarray],
    snapshot: CacheSnapshot | None,
    speeds: FinishedStep | None = None,
    conversation: Iterable[_Message] | None = None,
    device: str | None = None,
    reference: FinishedStep | None = None,
    prediction: Mapping[str, Any] | None = None,
    fidelity: Mapping[str, Any] | None = None,
    slot_history: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Put a report together.

    Args:
        compute: device and number type the model computes in, in words.
        history: the history or its columns; an empty mapping is a history without rows.
        snapshot: the newest snapshot; None before the first message.
        speeds: the end of the last reply, None before there is one.
        conversation: the messages, or None to leave the words out of the report.
        device: MLX's name of its device.
        reference: the end of a reply through the uncompressed cache in the same session.
        prediction: what ``plan_record`` gives. fidelity: see the schema; None where it was not measured.
        slot_history: what ``History.slots_as_dict`` gives.

    What is unknown is null. Of the model's path only the folder's name is kept.
    """
    columns = history.columns() if isinstance(history, History) else history or History().columns()
    shown = snapshot or CacheSnapshot(0, (), 0, 0)
    ratio = shown.ratio
    report: dict[str, Any] = {
        "report": {"format": FORMAT, "version": VERSION},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": machine() | {"mlx_device": device},
        "model": _model(model, compute),
        "method": _method(config),
        "plan": {
            "sentence": plan.sentence,
            "replaced_slots": plan.replaced,
            "total_slots": len(plan.slots),
            "slots": [{"slot": s.slot, "replaced": s.replaced, "reason": s.sentence} for s in plan.slots],
        },
        "tokens": {
            "in_cache": shown.tokens,
            "last_prompt": speeds.prompt_tokens if speeds else None,
            "last_reply": speeds.reply_tokens if speeds else None,
        },
        "totals": _bytes(shown.counted, shown.resident_bytes, shown.reference_bytes),
        "slots": [_slot(layer) for layer in shown.layers],
        "ratio": {
            "times_smaller_than_16_bits_counted": ratio,
            "words": NOT_YET if ratio is None else f"{ratio:,.1f} times smaller than 16 bits, counted",
        },
        "speeds": {
            "prefill_tokens_per_second_measured": speeds.prefill_speed if speeds else None,
            "decode_tokens_per_second_measured": speeds.decode_speed if speeds else None,
            "reference": None if reference is None else _reference(reference),
        },
        "memory": {
            "mlx_active_bytes_measured": snapshot.active_memory if snapshot else None,
            "mlx_peak_bytes_measured": snapshot.peak_memory if snapshot else None,
            "mlx_peak_prefill_bytes_measured": speeds.prefill_peak if speeds else None,
            "mlx_peak_decode_bytes_measured": speeds.decode_peak if speeds else None,
        },
        "prediction": None if prediction is None else dict(prediction),
        "fidelity": None if fidelity is None else dict(fidelity),
        "history": {},
        "units": dict(UNITS),
    }
    if conversation is not None:
        # Half a character, as a broken clipboard gives, can't be written as UTF-8.
        report["transcript"] = [
            {"role": said.role, "content": said.content.encode("utf-8", "replace").decode("utf-8")}
            for said in conversation
        ]
    finite: dict[str, Any] = _finite(report)
    if slot_history is not None:
        finite["slot_history"] = dict(slot_history)
    finite["history"] = {name: _column(column) for name, column in columns.items()}
    return finite


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Check a report and write it as UTF-8 JSON, in one step: ``path`` is the old file or all of the new.

    Raises VeloxQuantError when the report is not whole or the file can't be written.
    """
    validate_report(report)
    try:
        data = _as_json(report).encode("utf-8")
    except ValueError as error:
        raise VeloxQuantError(
            "The report holds a figure or a text that JSON can't: nothing was written."
        ) from error
    save("The report", path, data)


def _as_json(report: Mapping[str, Any]) -> str:
    """JSON for people: one figure a line, but one history column a line."""
    long = ("history", "slot_history")
    head = {name: part for name, part in report.items() if name not in long}
    text = json.dumps(head, indent=2, allow_nan=False, ensure_ascii=False)
    if "slot_history" in report:
        slots = json.dumps(report["slot_history"], allow_nan=False, separators=(",", ":"))
        text = text.removesuffix("\n}") + f',\n  "slot_history": {slots}\n}}'
    columns = [
        f"    {json.dumps(name)}: {json.dumps(column, allow_nan=False, separators=(',', ':'))}"
        for name, column in report["history"].items()
    ]
    return text.removesuffix("\n}") + ',\n  "history": {\n' + ",\n".join(columns) + "\n  }\n}\n"


def _reference(finished: FinishedStep) -> dict[str, Any]:
    return {
        "tokens": finished.snapshot.tokens,
        "prefill_tokens_per_second_measured": finished.prefill_speed,
        "decode_tokens_per_second_measured": finished.decode_speed,
    }


def _model(info: ModelInfo, compute: str) -> dict[str, Any]:
    known = {
        name: getattr(info, name)
        for name in (
            "source", "format", "architecture", "parameters", "weight_bits", "size_bytes", "context", "slots",
            "kv_slots", "heads", "key_dim", "value_dim",
        )
    }  # fmt: skip
    # A name may be a path where a person opened a folder by hand; the path says who they are.
    name = Path(info.name).name if Path(info.name).is_absolute() else info.name
    return {"name": name, "folder": info.path.name} | known | {"compute": compute}


def _method(config: KVCacheConfig) -> dict[str, Any]:
    inactive = config.inactive()
    values = config.as_dict()
    parameters = {}
    for field in config.fields():
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        words = {"label": field.param.label, "unit": field.param.unit, "help": field.param.help}
        parameters[field.name] = {"value": values[field.name], "default": default} | words
        if field.name in inactive:
            parameters[field.name]["inactive"] = inactive[field.name]
    return {
        "key": config.method,
        "label": config.label,
        "summary": config.summary,
        "paper": config.paper,
        "preset": config.preset_name(),
        "parameters": parameters,
    }


def _slot(layer: LayerStats) -> dict[str, Any]:
    figures = _bytes(layer.counted, layer.resident_bytes, layer.reference_bytes)
    gauges = {"gauges": dict(layer.gauges)}
    return {"slot": layer.slot, "replaced": layer.replaced, "tokens": layer.tokens} | figures | gauges


def _bytes(counted: ByteCount, resident: int, reference: int) -> dict[str, Any]:
    return {
        "counted_bytes": counted.as_dict() | {"total": counted.total},
        "resident_bytes_measured": resident,
        "reference_16_bit_bytes_counted": reference,
    }


def _column(column: np.ndarray) -> list[float | None]:
    """A history column with null where a number is unknown."""
    values: list[float | None] = column.tolist()
    if column.dtype.kind == "f":
        return [value if value is not None and math.isfinite(value) else None for value in values]
    return values


def _finite(value: Any) -> Any:
    """The same value with null for every number that is none."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value
