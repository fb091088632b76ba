"""The ruler: what a cache costs in answers, beside what it saves in memory and takes in time."""

from .compare import measure
from .limit import reverse_water_filling
from .records import Measurement, MethodFidelity, Phase, SideFidelity, SlotFidelity, Spread
from .score import Scores
from .text import BUNDLED, cut, read_text

__all__ = [
    "BUNDLED",
    "Measurement",
    "MethodFidelity",
    "Phase",
    "Scores",
    "SideFidelity",
    "SlotFidelity",
    "Spread",
    "cut",
    "measure",
    "read_text",
    "reverse_water_filling",
]
