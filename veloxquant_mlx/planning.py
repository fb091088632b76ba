"""What a model will take in memory, before and after it is loaded, and the longest context that fits.

Everything is *predicted* in closed form but the weights of a loaded model. No model is computed, no file
read: a ``ModelInfo`` and a ``Machine`` are enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from .config import KVCacheConfig
from .models.compute import MARGIN
from .models.describe import ModelInfo
from .spelling import spell_method
from .steps import PREFILL_BLOCK
from .telemetry import ByteCount

MOST_TOKENS = 1 << 24
"""Where the search for the longest context ends, for a model that names no limit."""
AVERAGED = 32_768
"""Bytes per 1,000 tokens are an average over so many tokens, or over the context where that is shorter."""
FUSED_HEADS = (64, 80, 128)
"""Channels of a head for which Metal attends to a block without writing the scores down."""
TIGHT = 0.85
"""Share of the memory from which on other programs will be felt."""
_PASS = (8, 4)
"""Rows of the hidden and of the inner width that one forward pass holds at its highest."""
_DECODED = 9
"""Numbers in flight per row number of the slot whose codes are being decoded."""


class Fit(StrEnum):
    """Whether something fits."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_LARGE = "too large"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a model is to run."""

    memory: int
    """Bytes that weights, cache and running pass may take together."""
    words: str
    """What that number is: ``physical memory``, ``Metal's recommended working set``, ``as given``."""
    metal: bool
    """Computes on Apple's GPU; otherwise on the processor, in float32."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes at one number of tokens (predicted)."""

    weights: int
    cache: int
    working: int
    """Of the running pass: the widest layer, attention scores, decoded rows."""

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.cache + self.working


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest context that fits."""

    tokens: int
    """0 when not even the first token does."""
    by_memory: bool
    """True where memory ends it, False where the model's own context does."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """A model on a machine. Methods take a configuration; None stands for the model's own cache."""

    info: ModelInfo
    machine: Machine
    weights: int
    """Bytes in memory."""
    measured: bool
    """True when the weights are those of the loaded model, False when they are predicted."""
    width: int
    """Bytes of one number in the precision it computes in."""

    @classmethod
    def of(cls, info: ModelInfo, machine: Machine, loaded: int | None = None) -> "MemoryPlan":
        """Plan a model. ``loaded``: bytes its weights take where it is in memory already (measured)."""
        stored, unpacked = info.size_bytes, (info.parameters or 0) * 4
        if machine.metal:
            weights, width = stored, 4 if (info.weight_bits or 0) > 24 else 2
        else:
            roomy = unpacked and unpacked + MARGIN <= machine.memory
            weights, width = (unpacked, 4) if roomy else (stored, 4)
        return cls(info, machine, weights if loaded is None else loaded, loaded is not None, width)

    @property
    def horizon(self) -> int:
        """Tokens over which bytes per 1,000 tokens are averaged."""
        return min(self.info.context or AVERAGED, AVERAGED)

    def cache(self, config: KVCacheConfig | None, tokens: int) -> ByteCount | None:
        """Bytes of the whole cache list by kind; None where a slot or the method can't tell."""
        if self.info.layout is None:
            return None
        return self.info.layout.cache_bytes(config, tokens, self.width)

    def at_16_bits(self, tokens: int) -> int | None:
        """Bytes of the same tokens in the model's own cache at 16 bits (counted)."""
        whole = None if self.info.layout is None else self.info.layout.cache_bytes(None, tokens)
        return None if whole is None else whole.total

    def per_thousand(self, config: KVCacheConfig | None) -> float | None:
        """Bytes per 1,000 tokens, averaged up to ``horizon``."""
        found = self.cache(config, self.horizon)
        return None if found is None else found.total / self.horizon * 1000

    def working(self, config: KVCacheConfig | None, tokens: int) -> int:
        """Bytes of the running pass at its highest, beside weights and cache; 0 where nobody knows.

        Of a pass over one block of the prompt: what one layer has in flight, the attention scores where
        they are written down, and the rows of the one slot that is being attended to.
        """
        body, layout = self.info.body, self.info.layout
        if body is None or layout is None:
            return 0
        block = min(PREFILL_BLOCK, tokens)
        layer = block * (_PASS[0] * body.hidden + _PASS[1] * body.inner) + body.vocabulary
        shapes = [slot.shape for slot in layout.slots if slot.shape is not None]
        row = max((shape.heads * (shape.key_dim + shape.value_dim) for shape in shapes), default=0)
        fused = self.machine.metal and all(shape.key_dim in FUSED_HEADS for shape in shapes)
        scores = 0 if fused or not shapes else body.queries * block * tokens
        coded = (
            config is not None and config.compresses and config.gives_rows and layout.plan(config).replaced
        )
        return (layer + scores + row * tokens * (_DECODED if coded else 1)) * self.width

    def need(self, config: KVCacheConfig | None, tokens: int) -> Need | None:
        """Everything at ``tokens`` tokens; None where the cache is unknown."""
        cache = self.cache(config, tokens)
        if cache is None:
            return None
        return Need(self.weights, cache.total, self.working(config, tokens))

    def longest(self, config: KVCacheConfig | None) -> Longest | None:
        """The longest context whose need fits the machine's memory, to the token."""
        end = self.info.context or MOST_TOKENS
        if self.need(config, 1) is None:
            return None

        def fits(tokens: int) -> bool:
            need = self.need(config, tokens)
            return need is not None and need.total <= self.machine.memory

        if fits(end):
            return Longest(end, by_memory=self.info.context is None)
        low, high = 0, end
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return Longest(low, by_memory=True)

    def fit(
        self, config: KVCacheConfig | None, tokens: int, *, least: int | None = None, ease: float = TIGHT
    ) -> Fit:
        """Whether the model with a cache of ``tokens`` tokens fits the memory, with or without ease.

        Args:
            least: tokens without room for which it is of no use; None is ``tokens``. What fits only with
                fewer than ``tokens`` is TIGHT.
            ease: share of the memory from which on it is TIGHT. 1.0 where the memory is already what a
                person allows.
        """
        need, smallest = self.need(config, tokens), self.need(config, tokens if least is None else least)
        if need is None or smallest is None or not self.weights:
            return Fit.UNKNOWN
        if need.total <= ease * self.machine.memory:
            return Fit.FITS
        return Fit.TIGHT if smallest.total <= self.machine.memory else Fit.TOO_LARGE


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One setting in the table of a plan."""

    config: KVCacheConfig
    name: str
    """Method and preset in words."""
    spelled: str
    """The same as the command line takes it."""
    compressed: int
    """Slots it compresses."""
    per_thousand: float | None
    """Bytes per 1,000 tokens."""
    smaller: float | None
    """Times smaller than 16 bits, up to the plan's horizon; None where that is unknown."""
    longest: Longest | None


def plan_rows(
    plan: MemoryPlan, methods: Mapping[str, type[KVCacheConfig]], own: KVCacheConfig | None = None
) -> list[PlanRow]:
    """Every preset of every method, the uncompressed cache first; ``own`` follows it where it is none."""
    listed = list(_listed(methods))
    listed.sort(key=lambda config: config.compresses)
    if own is not None and own not in listed:
        listed.insert(1, own)
    return [_row(plan, config) for config in listed]


def _listed(methods: Mapping[str, type[KVCacheConfig]]) -> Iterator[KVCacheConfig]:
    for method in methods.values():
        yield from (method.preset(name) for name in method.presets) if method.presets else (method(),)


def _row(plan: MemoryPlan, config: KVCacheConfig) -> PlanRow:
    per, whole = plan.per_thousand(config), plan.at_16_bits(plan.horizon)
    layout = plan.info.layout
    smaller = whole / (per * plan.horizon / 1000) if config.compresses and per and whole else None
    return PlanRow(
        config,
        name=f"{config.label} {config.preset_name() or _unnamed(config)}".strip(),
        spelled=spell_method(config),
        compressed=layout.plan(config).replaced if layout is not None and config.compresses else 0,
        per_thousand=per,
        smaller=smaller,
        longest=plan.longest(config),
    )


def _unnamed(config: KVCacheConfig) -> str:
    return "" if config == type(config)() else "as set"


def plan_record(
    plan: MemoryPlan, rows: Sequence[PlanRow], config: KVCacheConfig, tokens: int
) -> dict[str, Any]:
    """A plan at ``tokens`` tokens, JSON-ready; bytes, predicted but for the memory."""
    layout = plan.info.layout
    return {
        "model": plan.info.name,
        "machine": asdict(plan.machine),
        "bytes_per_number": plan.width,
        "context": plan.info.context,
        "weights_measured": plan.measured,
        "tokens": tokens,
        "method": spell_method(config),
        "slots": None if layout is None else layout.plan(config).sentence,
        "need_bytes": _need(plan, config, tokens),
        "fits": str(plan.fit(config, tokens)),
        "cache_bytes_at_16_bits": plan.at_16_bits(tokens),
        "averaged_over_tokens": plan.horizon,
        "presets": [
            {
                "method": row.spelled,
                "compressed_slots": row.compressed,
                "bytes_per_1000_tokens": row.per_thousand,
                "times_smaller_than_16_bits": row.smaller,
                "longest_context": None if row.longest is None else asdict(row.longest),
                "need_bytes": _need(plan, row.config, tokens),
            }
            for row in rows
        ],
    }


def _need(plan: MemoryPlan, config: KVCacheConfig, tokens: int) -> dict[str, int] | None:
    need = plan.need(config, tokens)
    return None if need is None else asdict(need) | {"total": need.total}


def this_machine(memory: int | None = None, *, metal: bool | None = None) -> Machine:
    """The machine this runs on, or one with other memory or another device. Imports MLX.

    The memory is what Apple recommends a program's working set to be, where the system says so, else the
    physical memory.
    """
    import mlx.core as mx
    import psutil

    here = mx.default_device() == mx.gpu and mx.metal.is_available()
    recommended = mx.device_info().get("max_recommended_working_set_size") if here else None
    on = here if metal is None else metal
    if memory is not None:
        return Machine(memory, "as given", on)
    if isinstance(recommended, int) and recommended > 0:
        return Machine(recommended, "Metal's recommended working set", on)
    return Machine(int(psutil.virtual_memory().total), "physical memory", on)
