"""SVDq: keys as latent coordinates of a few bits in a basis of their own; values stay at 16 bits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import mlx.core as mx
import numpy as np

from ..config import Gauge, KVCacheConfig, SlotShape, param
from ..errors import QuantizerConfigError
from ..quantizers.svdq import Basis, Moments, averaged, schedule_bits, water_fill
from ..rotary import Rotary, turns
from ..telemetry import ByteCount, HeadBasis
from .base import CompressedKVCache, flush_frontier
from .dump import Dump, taken
from .exact_side import ExactSide
from .latents import LatentStore
from .readers import Reader
from .shared_params import context_limit, defer_flush, param_bits, recent_rows
from .side import Side

# What lowered the divergence at equal bytes on a text that is not the one reported on.
MEASURED_BEST: dict[str, Any] = {
    "svdq_bit_schedule": "auto", "svdq_n_sink": 4, "svdq_recent": 24,
    "svdq_fit_rows": 512, "svdq_positions": 2048, "svdq_query_weight": 0.3, "svdq_param_bits": 8,
    "svdq_defer_flush": True,
}  # fmt: skip

_TURNS = 24
"""Positions that stand for all when moments are averaged."""


@dataclass(frozen=True)
class SVDqConfig(KVCacheConfig):
    """SVDq, adapted: keys become latent coordinates in a low-dimensional basis, a few bits each.

    Paper: "SVDq: 1.25-bit and 410x Key Cache Compression for LLM Attention", arXiv:2502.15304.
    Deviations: the basis is learnt from the first rows of each chat, not from a calibration corpus, and the
    rank from their energy. Values stay at 16 bits. Fields marked as extensions go beyond the paper and are
    off by default.
    """

    label: ClassVar[str] = "SVDq"
    summary: ClassVar[str] = "Keys become a few latent coordinates of few bits; values stay at 16 bits."
    paper: ClassVar[str] = "arXiv:2502.15304"
    gauges: ClassVar[Mapping[str, Gauge]] = {
        "frontier": Gauge("Flush frontier", "Tokens before it are stored as codes.", "tokens"),
        "sinks": Gauge("Sink rows", "Leading tokens kept exact.", "rows"),
        "tail": Gauge("Exact tail", "Newest tokens, still exact.", "rows"),
        "rank": Gauge(
            "Rank", "Latent channels kept, mean over heads, rounded down.", "channels", always=False
        ),
        "drift": Gauge(
            "Drift", "Share of newly flushed keys' energy outside the frozen basis, mean over heads.", "%",
            always=False,
        ),
    }  # fmt: skip
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "Balanced": {"svdq_avg_bits": 3.0, "svdq_group_size": 64} | MEASURED_BEST,
        "Smallest": {"svdq_avg_bits": 1.4} | MEASURED_BEST,
        "Near-lossless": {"svdq_avg_bits": 4.5, "svdq_group_size": 64} | MEASURED_BEST,
        "Documented": {},
    }  # fmt: skip

    svdq_rank: int | None = param(
        None, label="Rank", unit="channels", low=1, high=1024, step=1, unset="By energy",
        help="Latent channels kept per head. By energy, each head takes as many as its own keys need.",
    )  # fmt: skip
    svdq_energy_threshold: float = param(
        0.95, label="Energy kept", low=0.5, high=1.0, step=0.005,
        help="Share of the keys' energy that the kept channels must hold. More channels lose less and take "
        "more memory.",
    )  # fmt: skip
    svdq_bit_schedule: tuple[int, ...] | Literal["auto"] = param(
        (8, 4, 2, 1, 1, 0, 0, 0), label="Bit schedule", unit="bits", low=0, high=8, step=1, unset="By energy",
        help="Bits of the latent channels, in equal groups, the most telling first; 0 stores nothing of a "
        "group. By energy, each channel of each head gets what lowers the error most.",
    )  # fmt: skip
    svdq_avg_bits: float = param(
        2.0, label="Bits per key value", unit="bits", low=0.5, high=8.0, step=0.05, extension=True,
        help="What one key value takes on average, scales and zero points included, when bits go by energy.",
    )  # fmt: skip
    svdq_group_size: int = param(
        32, label="Group", unit="tokens", choices=(16, 32, 64, 128),
        help="Tokens that are flushed together and share a channel's scale and zero point. Larger groups "
        "store fewer parameters, keep more rows exact meanwhile and fit less well.",
    )  # fmt: skip
    svdq_n_sink: int = param(
        0, label="Sinks", unit="rows", low=0, high=128, step=1, extension=True,
        help="First tokens of the chat kept exact and left out of the basis, which their huge keys would "
        "bend. Each costs one 16-bit row.",
    )  # fmt: skip
    svdq_recent: int = recent_rows("group")
    svdq_fit_rows: int = param(
        0, label="Rows of the fit", unit="tokens", low=0, high=4096, step=32, extension=True,
        help="Tokens to wait for, at 16 bits, before the basis is fitted to them. More give a basis that "
        "holds longer; 0 fits to what is there when the first group is full.",
    )  # fmt: skip
    svdq_positions: int = param(
        0, label="Positions ahead", unit="tokens", low=0, high=131072, step=512, extension=True,
        help="Let the basis foresee how the model's rotary embedding will turn keys up to so many tokens "
        "ahead, so that it does not drift. 0 fits to the first positions alone. Costs nothing later.",
    )  # fmt: skip
    svdq_query_weight: float = param(
        0.0, label="Weigh by queries", low=0.0, high=1.0, step=0.05, extension=True,
        help="How much the queries seen before the fit decide which directions get bits. Works where "
        "attention runs on codes; costs nothing later.",
    )  # fmt: skip
    svdq_param_bits: int = param_bits()
    svdq_defer_flush: bool = defer_flush()
    svdq_max_ctx: int | None = context_limit()

    @property
    def automatic(self) -> bool:
        """True when water-filling chooses the bits."""
        return self.svdq_bit_schedule == "auto"

    def check(self) -> None:
        """A schedule has bits; an explicit rank fits the head and every group that is cut off."""
        schedule, rank = self.svdq_bit_schedule, self.svdq_rank
        if isinstance(schedule, tuple):
            if not any(schedule) or len(schedule) > 64:
                raise QuantizerConfigError(
                    "svdq_bit_schedule", "svdq_bit_schedule must have 1 to 64 entries, one above 0 at least."
                )
            if rank is not None and 0 in schedule and rank < len(schedule):
                raise QuantizerConfigError(
                    "svdq_rank", f"svdq_rank must be at least {len(schedule)}, one channel for each entry of "
                    "svdq_bit_schedule, as long as the schedule cuts groups off with 0.",
                )  # fmt: skip
        if rank is not None and self.head_dim is not None and rank > self.head_dim:
            raise QuantizerConfigError(
                "svdq_rank", f"svdq_rank must be at most {self.head_dim}, the channels of one head."
            )

    def inactive(self) -> dict[str, str]:
        """A rank settles the energy; bits by energy settle rank and energy."""
        reasons = {}
        if self.automatic:
            reasons["svdq_energy_threshold"] = "Bits go by energy: channels without bits are left out."
        else:
            reasons["svdq_avg_bits"] = "The bit schedule is set by hand."
            if self.svdq_rank is not None:
                reasons["svdq_energy_threshold"] = "Rank is set by hand."
        return reasons

    def misfit(self, shape: SlotShape) -> str | None:
        """A rank needs as many channels."""
        rank = self.svdq_rank
        if rank is None or rank <= shape.key_dim:
            return None
        return f"heads of {shape.key_dim} channels, fewer than the rank of {rank}; lower it"

    def make_cache(self, slot: int) -> "SVDqKVCache":
        """An empty SVDq cache for one slot."""
        return SVDqKVCache(self, slot)

    def frontier_at(self, tokens: int) -> int:
        """Rows behind the frontier at ``tokens`` rows: sinks, then whole groups as soon as a basis pays."""
        after_sinks = tokens - self.svdq_n_sink
        if after_sinks < self.svdq_fit_rows:
            return 0
        coded = flush_frontier(after_sinks, self.svdq_group_size, self.svdq_recent)
        # The basis takes the bytes of some dozen rows: less than two groups would not pay for it.
        return self.svdq_n_sink + coded if coded >= 2 * self.svdq_group_size else 0

    def head_basis(self, basis: Basis) -> HeadBasis:
        """Rank and bits of one head."""
        size = len(basis.energies)
        most = min(self.svdq_rank or size, size)
        if self.svdq_bit_schedule == "auto":
            bits = water_fill(basis.energies[:most], self.svdq_avg_bits * size, self._overhead)
            rank = max(channel for channel, width in enumerate(bits) if width) + 1
            bits = bits[:rank]
        else:
            rank = most if self.svdq_rank is not None else basis.rank_for(self.svdq_energy_threshold)
            bits = schedule_bits(self.svdq_bit_schedule, rank)
        return HeadBasis(rank, tuple(float(share) for share in basis.spectrum), bits)

    @property
    def _overhead(self) -> float:
        """Bits per token that a channel's scale and zero point take."""
        return 2 * self.svdq_param_bits / self.svdq_group_size

    def predict(self, tokens: int, shape: SlotShape) -> ByteCount:
        """Bytes of one slot at ``tokens`` tokens, in closed form; at most, where the energy sets the rank."""
        keys = self.predict_keys(tokens, shape)
        exact = tokens * shape.batch * shape.heads * shape.value_dim * 2
        sinks = self.predicted_sinks(tokens) * shape.batch * shape.heads * shape.value_dim * 2
        return keys + ByteCount(exact=exact - sinks, sinks=sinks)

    def predicted_sinks(self, tokens: int) -> int:
        """Sink rows at ``tokens`` rows."""
        return self.svdq_n_sink if self.frontier_at(tokens) else 0

    def predict_keys(self, tokens: int, shape: SlotShape) -> ByteCount:
        """Bytes of the keys of one slot, in closed form."""
        heads, dim = shape.batch * shape.heads, shape.key_dim
        frontier, sinks = self.frontier_at(tokens), self.predicted_sinks(tokens)
        exact = ByteCount(exact=(tokens - frontier) * heads * dim * 2, sinks=sinks * heads * dim * 2)
        if not frontier:
            return exact
        bits = self._expected_bits(dim)
        stored = sum(1 for width in bits if width)
        coded = (frontier - sinks) * heads
        return exact + ByteCount(
            codes=coded * sum(bits) // 8,
            parameters=coded // self.svdq_group_size * stored * 2 * self.svdq_param_bits // 8,
            side=heads * (stored * dim + dim * 2 + heads * stored * 2),
        )

    def _expected_bits(self, dim: int) -> tuple[int, ...]:
        """Bits of the channels before a head is known: a falling spectrum, or every channel at most."""
        most = min(self.svdq_rank or dim, dim)
        if self.svdq_bit_schedule == "auto":
            return _typical_bits(most, self.svdq_avg_bits * dim, self._overhead)
        return schedule_bits(self.svdq_bit_schedule, most)


@lru_cache(maxsize=256)
def _typical_bits(channels: int, budget: float, overhead: float) -> tuple[int, ...]:
    """Bits by energy of a head whose spectrum falls as real ones do; kept, as a moving slider asks often."""
    return water_fill(0.93 ** np.arange(channels), budget, overhead)


class _Drift(NamedTuple):
    """Share of each head's flushed energy outside its basis."""

    known: tuple[float, ...]
    """As of the flush before the newest; empty at the first."""
    newest: mx.array
    """float32, [B * H]; still on its way, perhaps."""


class SVDqKeySide(Side):
    """Keys as packed latents; what the frozen basis is learnt from is gathered until the first flush."""

    def __init__(self, config: SVDqConfig, slot: int) -> None:
        super().__init__(config.svdq_n_sink)
        self.config = config
        self.slot = slot
        self.store = LatentStore(config.svdq_group_size, config.svdq_param_bits)
        self.rotary: Rotary | None = None
        self.noted: _Drift | None = None

    def see(self, queries: mx.array) -> None:
        """Add to the second moment [B * H, D, D] of the queries, as long as there is no basis."""
        if self.fitted or self.shape is None or not self.config.svdq_query_weight:
            return
        batch, heads, dim = self.shape
        flat = queries.astype(mx.float32).reshape(batch * heads, -1, dim)
        moment = flat.swapaxes(-1, -2) @ flat
        self.gathered = moment if self.gathered is None else self.gathered + moment

    def flush(self, count: int, chunk: int) -> None:
        """See Side; the basis is learnt from the rows that were waited for, or from all that are there."""
        super().flush(
            count, self.n_sink + self.config.svdq_fit_rows if self.config.svdq_fit_rows else self.count
        )

    def fit(self, rows: mx.array) -> None:
        """Freeze mean, directions and bits of every head."""
        batch, heads, _, dim = rows.shape
        moments = Moments.of(rows[:, :, self.n_sink :].reshape(batch * heads, -1, dim))
        queries, self.gathered = self.gathered, None
        ahead = self.config.svdq_positions
        turned = turns(self.rotary, dim, ahead, _TURNS) if ahead and self.rotary else None
        if turned is not None:
            moments = moments.averaged(turned)
            queries = None if queries is None else averaged(queries, turned)
        of_keys = np.array(moments.covariance, dtype=np.float64)
        of_queries = [None] * len(of_keys) if queries is None else np.array(queries, dtype=np.float64)
        bases = [
            Basis.of(keys, asked, self.config.svdq_query_weight)
            for keys, asked in zip(of_keys, of_queries, strict=True)
        ]
        learnt = [self.config.head_basis(basis) for basis in bases]
        self.store.learn(moments.mean, [basis.directions for basis in bases], learnt)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fit could not do as told, in sentences."""
        schedule = self.config.svdq_bit_schedule
        short = [head for head in self.store.heads if head.rank < len(schedule)]
        if not isinstance(schedule, tuple) or 0 not in schedule or not short:
            return ()
        return (
            f"Slot {self.slot}: {len(short)} of {len(self.store.heads)} heads have fewer channels than the "
            "schedule has entries, so nothing of theirs is cut off.",
        )

    def encode(self, rows: mx.array) -> None:
        """Append rows [B, H, S, D], whole groups."""
        known: Any = () if self.noted is None else tuple(self.noted.newest.tolist())  # type: ignore[arg-type]
        newest = self.store.append(rows.reshape(-1, *rows.shape[2:]))
        # Computed beside the codes; nobody waits for it before the next flush.
        mx.async_eval(newest)
        self.noted = _Drift(known, newest)

    def truncate(self, rows: int) -> None:
        """Keep the oldest ``rows`` rows."""
        self.store.truncate(rows)

    def unfit(self) -> None:
        """Forget the basis."""
        self.store.forget()

    def coded_rows(self, dtype: mx.Dtype) -> mx.array:
        """The keys that the latents stand for, [B, H, coded, D]."""
        rows = self.store.decoded(dtype)
        batch, heads, dim = self.shape or (1, *rows.shape[::2])
        return rows.reshape(batch, heads, -1, dim)

    def reader(self, dtype: mx.Dtype, queries: int) -> Reader:
        """A reader of the latents for few queries; else of keys decoded once for the call."""
        return self.store.reader(queries) or super().reader(dtype, queries)

    def dump_store(self) -> Dump:
        """Directions, means, bits and codes; and the drift, for the gauges."""
        arrays, facts = self.store.dump()
        if self.noted is None:
            return arrays, facts
        return arrays | {"newest_drift": self.noted.newest}, facts | {"drift": list(self.noted.known)}

    def restore_store(self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
        """Undo ``dump_store``."""
        if self.shape is None:
            raise ValueError("shape")
        batch, heads, dim = self.shape
        self.store.restore(arrays, facts, batch * heads, self.coded, dim)
        newest = taken(arrays, "newest_drift", (batch * heads,), mx.float32)
        self.noted = _Drift(tuple(float(share) for share in facts["drift"]), newest)

    def store_bytes(self) -> ByteCount:
        """Codes, parameters and side data (counted)."""
        return self.store.byte_count(self.coded)

    def store_arrays(self) -> list[mx.array]:
        """Every array of the store."""
        return self.store.arrays()


class SVDqKVCache(CompressedKVCache):
    """KV cache of one slot under SVDq.

    Keys behind the frontier exist as packed latents only, in whole groups of tokens, in a basis fitted per
    batch row and head when the first group is full (or ``svdq_fit_rows`` rows are there) and frozen then.
    Values stay at 16 bits. Takes an SVDqConfig (or any configuration with the same fields).
    """

    key_side: SVDqKeySide
    config: SVDqConfig

    def __init__(self, config: SVDqConfig, slot: int = 0, value_side: Side | None = None) -> None:
        super().__init__(
            config,
            slot,
            SVDqKeySide(config, slot),
            value_side or ExactSide(config.svdq_n_sink),
            window=config.svdq_n_sink + config.svdq_group_size,
            n_sink=config.svdq_n_sink,
            recent=config.svdq_recent,
            defer_flush=config.svdq_defer_flush,
            max_ctx=config.svdq_max_ctx,
        )

    def _flush(self) -> None:
        self.key_side.rotary = self.rotary
        super()._flush()

    def _frontier_at(self, offset: int) -> int:
        return self.config.frontier_at(offset)

    def lowest_at(self, tokens: int) -> int:
        """See CompressedKVCache; what was gathered of the queries knows of every token up to now."""
        if self.config.frontier_at(tokens):
            return max(super().lowest_at(tokens), self.n_sink + self.config.svdq_fit_rows)
        return tokens if self.on_codes and self.config.svdq_query_weight else 0

    @property
    def compressed_key_bytes(self) -> int:
        """Latent codes, their parameters, bases and means of the keys (counted)."""
        count = self.key_side.store_bytes()
        return count.codes + count.parameters + count.side

    @property
    def value_fp16_bytes(self) -> int:
        """Values held at 16 bits (counted)."""
        count = self.value_side.byte_count()
        return count.exact + count.sinks

    @property
    def ranks(self) -> tuple[int, ...]:
        """Latent channels kept by each head, over batch rows and heads; empty before the fit."""
        return tuple(head.rank for head in self.heads())

    @property
    def rank(self) -> int:
        """Mean of ``ranks``, rounded down; 0 before the fit."""
        return sum(self.ranks) // len(self.ranks) if self.ranks else 0

    @property
    def assigned_avg_bits(self) -> float:
        """Bits of codes per key channel, mean over heads (paper, Eq. 6: schedule's mean times r / D)."""
        heads = self.heads()
        if self.key_side.shape is None or not heads:
            return 0.0
        return sum(sum(head.bits) for head in heads) / (len(heads) * self.key_side.shape[2])

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be done as told, in sentences."""
        return self.key_side.notes

    def heads(self) -> tuple[HeadBasis, ...]:
        """What each head froze at the fit."""
        return self.key_side.store.heads

    def drift(self) -> tuple[float, ...]:
        """Per head, as of the flush before the last; empty until then."""
        return () if self.key_side.noted is None else self.key_side.noted.known

    def gauges(self) -> Mapping[str, float]:
        """Frontier, sinks and tail; rank and drift once they are known."""
        known: dict[str, float] = dict(super().gauges())
        if self.ranks:
            known["rank"] = self.rank
        if self.drift():
            known["drift"] = 100 * sum(self.drift()) / len(self.drift())
        return known
