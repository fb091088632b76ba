"""The ruler: what a cache costs in answers, beside what it saves in memory and takes in time."""

from ..compared import ReplyFidelity, SideFidelity, SlotFidelity, TokenFidelity
from .captured import Captured
from .compare import measure, measure_steps
from .kept import KeptRows
from .limit import reverse_water_filling
from .records import Measurement, MethodFidelity, Phase, Spread
from .replay import Replayed, ReplayStep, Spoken, replay
from .score import Scores
from .text import BUNDLED, cut, read_text

__all__ = [
    "BUNDLED",
    "Captured",
    "KeptRows",
    "Measurement",
    "MethodFidelity",
    "Phase",
    "ReplayStep",
    "Replayed",
    "ReplyFidelity",
    "Scores",
    "SideFidelity",
    "SlotFidelity",
    "Spoken",
    "Spread",
    "TokenFidelity",
    "cut",
    "measure",
    "measure_steps",
    "read_text",
    "replay",
    "reverse_water_filling",
]
