"""A report with figures that are known, as the studio writes it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.core.history import History
from studio.core.report import build_report
from studio.core.session import Message
from tests.studio.synthetic import history, plan, reply
from tests.tiny import tiny_config
from veloxquant_mlx.config import KVCacheConfig, methods
from veloxquant_mlx.models.describe import ModelInfo
from veloxquant_mlx.models.slots import read_layout
from veloxquant_mlx.planning import Machine, MemoryPlan, plan_record, plan_rows
from veloxquant_mlx.steps import FinishedStep

FOREIGN = frozenset({1})
SLOTS = 4
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> & \"'`]]>--> {{ 7*7 }} {% raw %} | "
    "\x00\x1b\u202e | ```"
)
SEEN = HOSTILE.replace("\x00\x1b\u202e", "\ufffd" * 3)
"""What is left of it."""
INFO = ModelInfo(
    path=Path("/models/SmolLM2-135M-Instruct"), name="SmolLM2-135M-Instruct", source="this app",
    format="mlx", architecture="llama", parameters=134_515_008, weight_bits=4.5, size_bytes=98_000_000,
    context=4096, slots=3, kv_slots=3, heads=2, key_dim=32, value_dim=32, layout=read_layout(tiny_config()),
)  # fmt: skip
CONFIG = KVCacheConfig(method="skvq", skvq_bits_key=4)
FIDELITY: dict[str, Any] = {
    "tokens": 3,
    "kl_nats_per_token": {"mean": 0.25, "p99": 0.5},
    "same_first_choice": 0.875,
    "kl_of_every_token": [0.125, None, 0.5],
    "slots": [{"slot": 0, "attention_error": 0.0625}, {"slot": 1, "attention_error": None}],
}


def finished() -> FinishedStep:
    """The end of a reply read at 180 and written at 14 tokens per second."""
    step = list(reply(0, 300, 200, slots=SLOTS, foreign=FOREIGN))[-1]
    assert isinstance(step, FinishedStep)
    return replace(step, prefill_peak=700_000_000, decode_peak=650_000_000)


def prediction() -> dict[str, Any]:
    """What fits 900 MB."""
    made = MemoryPlan.of(INFO, Machine(900_000_000, "as given", metal=True), loaded=98_000_000)
    return plan_record(made, plan_rows(made, methods(), CONFIG), CONFIG, made.horizon)


def sample(kept: History | None = None, **changed: Any) -> dict[str, Any]:
    """A whole report; ``kept`` is the history it is about."""
    kept = history(slots=SLOTS, foreign=FOREIGN) if kept is None else kept
    slots = len(kept.snapshot.layers) if kept.snapshot else SLOTS
    values: dict[str, Any] = {
        "model": INFO, "compute": "CPU float32", "plan": plan(slots, FOREIGN), "config": CONFIG,
        "history": kept, "snapshot": kept.snapshot, "speeds": finished(), "device": "Device(cpu, 0)",
        "reference": replace(finished(), decode_seconds=finished().decode_seconds / 2),
        "prediction": prediction(), "slot_history": kept.slots_as_dict(),
    }  # fmt: skip
    return build_report(**values | changed)


def hostile() -> dict[str, Any]:
    """A report every free text of which tries to get out."""
    made = sample(conversation=[Message("user", HOSTILE), Message("assistant", f"````\n{HOSTILE}\n````")])
    made["model"] |= {"name": HOSTILE, "folder": "a<b>&c", "source": HOSTILE, "compute": HOSTILE}
    made["method"] |= {"label": HOSTILE, "summary": HOSTILE, "paper": HOSTILE, "preset": HOSTILE}
    made["machine"] |= {"platform": HOSTILE, "processor": HOSTILE, "mlx_device": HOSTILE}
    made["versions"][HOSTILE] = HOSTILE
    made["plan"]["sentence"] = HOSTILE
    made["plan"]["slots"][0]["reason"] = HOSTILE
    made["units"][HOSTILE] = HOSTILE
    made["prediction"]["presets"][0]["method"] = HOSTILE
    made["prediction"]["machine"]["words"] = HOSTILE
    made["fidelity"] = FIDELITY | {"through": [HOSTILE], "slots_through": HOSTILE}
    return made
