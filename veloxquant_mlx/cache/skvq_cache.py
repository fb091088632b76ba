"""SKVQ: a sliding exact window over group-quantized keys and values, stored packed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import mlx.core as mx

from ..config import Gauge, KVCacheConfig, SlotShape, param
from ..errors import QuantizerConfigError
from ..quantizers.skvq import channel_order, clip_grid, find_windows, hadamard, rotation, to_float16
from ..telemetry import ByteCount
from .base import CompressedKVCache, flush_frontier
from .codes import CodeStore
from .dump import Dump, taken
from .readers import CodeSpace, Reader
from .shared_params import context_limit, defer_flush, param_bits, recent_rows
from .side import Side

# What lowered the divergence at equal bytes on a text that is not the one reported on.
_MEASURED_BEST: dict[str, Any] = {
    "skvq_group_size": 64, "skvq_param_bits": 8, "skvq_center": True, "skvq_rotate": True,
    "skvq_defer_flush": True,
}  # fmt: skip


@dataclass(frozen=True)
class SKVQConfig(KVCacheConfig):
    """SKVQ, adapted: rows older than the window become codes of a few bits, in groups of channels.

    Paper: Duanmu et al., "SKVQ: Sliding-window Key and Value Cache Quantization for Large Language
    Models", COLM 2024, arXiv:2405.06219. Deviations: the channel order is learnt from the first
    flushed chunk of each chat, not from a calibration corpus; parameters are float16.
    Fields marked as extensions go beyond the paper and are off by default.
    """

    label: ClassVar[str] = "SKVQ"
    summary: ClassVar[str] = "Old tokens become codes of a few bits; the newest and the first stay exact."
    paper: ClassVar[str] = "arXiv:2405.06219"
    gauges: ClassVar[Mapping[str, Gauge]] = {
        "frontier": Gauge("Flush frontier", "Tokens before it are stored as codes.", "tokens"),
        "sinks": Gauge("Sink rows", "Leading tokens kept exact.", "rows"),
        "tail": Gauge("Exact tail", "Newest tokens, still exact.", "rows"),
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "Balanced": {"skvq_bits_key": 3, "skvq_window": 32, "skvq_recent": 32} | _MEASURED_BEST,
        "Smallest": {"skvq_window": 32, "skvq_recent": 32} | _MEASURED_BEST,
        "Near-lossless": {
            "skvq_bits_key": 4, "skvq_bits_value": 4, "skvq_window": 16, "skvq_recent": 16,
        } | _MEASURED_BEST,
        "Documented": {},
    }  # fmt: skip

    skvq_bits_key: int = param(
        2, label="Key bits", unit="bits", low=1, high=8, step=1,
        help="Bits of one key code. Keys decide what is looked at, so they need more bits than values.",
    )  # fmt: skip
    skvq_bits_value: int = param(
        2, label="Value bits", unit="bits", low=1, high=8, step=1,
        help="Bits of one value code. Each bit costs an eighth of a byte per channel and token.",
    )  # fmt: skip
    skvq_window: int = param(
        128, label="Window", unit="tokens", low=8, high=1024, step=8,
        help="Tokens that gather at 16 bits before they are flushed together. A larger window keeps more "
        "tokens exact and takes more memory.",
    )  # fmt: skip
    skvq_recent: int = recent_rows("window")
    skvq_n_sink: int = param(
        4, label="Sinks", unit="rows", low=0, high=128, step=1,
        help="First tokens of the chat kept exact: nearly every later token attends to them. Each costs one "
        "16-bit row.",
    )  # fmt: skip
    skvq_group_size: int = param(
        32, label="Group", unit="channels", choices=(16, 32, 64, 128),
        help="Channels that share one scale and zero point (4 bytes). Larger groups store fewer parameters "
        "and fit each channel less well.",
    )  # fmt: skip
    skvq_reorder: bool = param(
        True, label="Reorder channels",
        help="Put channels of like values into the same group, in an order learnt from the first chunk. "
        "Costs one number per head and channel, once.",
    )  # fmt: skip
    skvq_clip_search: bool = param(
        True, label="Search clip factor",
        help="Fit each group's window to its values instead of taking a fixed share of its range. Costs time "
        "at each flush, no memory.",
    )  # fmt: skip
    skvq_clip_alpha: float = param(
        0.7, label="Clip factor", low=0.5, high=1.0, step=0.01,
        help="Share of a group's range that the codes span when it is not searched.",
    )  # fmt: skip
    skvq_center: bool = param(
        False, label="Center keys", extension=True,
        help="Take the mean of each key channel out before quantizing. Saves models with large key biases "
        "(Qwen2); costs two bytes per head and channel, once.",
    )  # fmt: skip
    skvq_rotate: bool = param(
        False, label="Rotate", extension=True,
        help="Spread every row over all channels with a Hadamard rotation before quantizing, in place of "
        "reordering. Costs no memory and a small product per step.",
    )  # fmt: skip
    skvq_param_bits: int = param_bits()
    skvq_defer_flush: bool = defer_flush()
    skvq_max_ctx: int | None = context_limit()

    def check(self) -> None:
        """The first chunk must hold all sinks; a head size that cannot be rotated is refused."""
        if self.skvq_n_sink > self.skvq_window:
            raise QuantizerConfigError(
                "skvq_n_sink", f"skvq_n_sink must be at most skvq_window ({self.skvq_window}): sinks are "
                "taken from the first flushed chunk.",
            )  # fmt: skip
        if self.skvq_rotate and self.head_dim is not None:
            rotation(self.head_dim)

    @property
    def reorders(self) -> bool:
        """True when channels are reordered: rotation takes the place of it."""
        return self.skvq_reorder and not self.skvq_rotate

    def inactive(self) -> dict[str, str]:
        """Reordering yields to rotation; the fixed clip factor to the search."""
        reasons = {}
        if self.skvq_rotate:
            reasons["skvq_reorder"] = "Rotate is on: it takes the place of reordering."
        if self.skvq_clip_search:
            reasons["skvq_clip_alpha"] = "Search clip factor is on: each group finds its own."
        return reasons

    def misfit(self, shape: SlotShape) -> str | None:
        """Rotation needs head sizes that have a Hadamard matrix."""
        sizes = (shape.key_dim, shape.value_dim) if self.skvq_rotate else ()
        odd = next((size for size in sizes if hadamard(size) is None), None)
        return None if odd is None else f"heads of {odd} channels that can't be rotated; switch Rotate off"

    def make_cache(self, slot: int) -> "SKVQKVCache":
        """An empty SKVQ cache for one slot."""
        return SKVQKVCache(self, slot)

    def predict(self, tokens: int, shape: SlotShape) -> ByteCount:
        """Bytes of one slot at ``tokens`` tokens, in closed form."""
        frontier = flush_frontier(tokens, self.skvq_window, self.skvq_recent)
        keys, values = (self.side_bytes(tokens, frontier, shape, is_key=is_key) for is_key in (True, False))
        return keys + values

    def side_bytes(self, tokens: int, frontier: int, shape: SlotShape, *, is_key: bool) -> ByteCount:
        """Bytes of keys or values at so many tokens with the frontier there, in closed form."""
        dim, bits = (shape.key_dim, self.skvq_bits_key) if is_key else (shape.value_dim, self.skvq_bits_value)
        sinks = self.skvq_n_sink if frontier else 0
        heads = shape.batch * shape.heads
        exact = ByteCount(
            exact=(tokens - frontier) * heads * dim * 2,
            sinks=sinks * heads * dim * 2,
            side=self.side_data_bytes(shape.heads, dim, is_key=is_key) if frontier else 0,
        )
        return exact + self.code_store(bits).byte_count((frontier - sinks) * heads, dim)

    def code_store(self, bits: int) -> CodeStore:
        """An empty store for codes of ``bits`` bits."""
        first = (self.skvq_window - self.skvq_n_sink) or self.skvq_window
        return CodeStore(bits, self.skvq_group_size, self.skvq_param_bits, first)

    def side_data_bytes(self, heads: int, dim: int, *, is_key: bool) -> int:
        """Bytes of the channel order (int32) and, for keys, of the mean (16 bits) of one side."""
        return heads * dim * (4 * self.reorders + 2 * (self.skvq_center and is_key))


class SKVQSide(Side):
    """Keys or values as packed codes in *code space*: centred, then rotated or reordered channels."""

    def __init__(self, config: SKVQConfig, bits: int, *, is_key: bool) -> None:
        super().__init__(config.skvq_n_sink)
        self.config = config
        self.is_key = is_key
        self.store = config.code_store(bits)
        self.rotates = config.skvq_rotate
        self.centers = config.skvq_center and is_key
        if config.skvq_clip_search:
            self.alphas, self.refinements = clip_grid(bits, bell_shaped=self.rotates), 1
        else:
            self.alphas, self.refinements = (config.skvq_clip_alpha,), 0
        self.order: mx.array | None = None
        """Channel order, int32 [H, D]."""
        self.mean: mx.array | None = None
        """Channel mean of chunk 0 in code space, at 16 bits, [H, D]."""

    def fit(self, rows: mx.array) -> None:
        """Freeze the channel order and the key mean of the first chunk."""
        rows = rows.astype(mx.float32)
        if self.config.reorders:
            self.order = channel_order(rows, centred=self.centers)
        coded = self.into_code_space(rows)
        if self.centers:
            self.mean = to_float16(coded.mean(axis=(0, 2)))  # [H, D]

    def encode(self, rows: mx.array) -> None:
        """Append rows [B, H, S, D] to the packed store."""
        coded = self._centred(self.into_code_space(rows.astype(mx.float32)))
        window = find_windows(coded, self.store.bits, self.store.group, self.alphas, self.refinements)
        self.store.append(coded, window)

    def truncate(self, rows: int) -> None:
        """Keep the oldest ``rows`` codes."""
        self.store.truncate(rows)

    def unfit(self) -> None:
        """Forget the channel order and the key mean."""
        self.order = self.mean = None

    def dump_store(self) -> Dump:
        """Codes, windows, order and mean as far as they exist."""
        arrays, facts = self.store.dump()
        learnt = {"order": self.order, "mean": self.mean}
        return arrays | {name: array for name, array in learnt.items() if array is not None}, facts

    def restore_store(self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
        """Undo ``dump_store``; an order that is no order of the channels is refused."""
        if self.shape is None:
            raise ValueError("shape")
        batch, heads, dim = self.shape
        self.store.restore(arrays, facts, (batch, heads, self.coded, dim))
        if self.config.reorders:
            self.order = taken(arrays, "order", (heads, dim), mx.int32)
            if not mx.array_equal(
                mx.sort(self.order, axis=-1), mx.broadcast_to(mx.arange(dim), (heads, dim))
            ):
                raise ValueError("order")
        if self.centers:
            self.mean = taken(arrays, "mean", (heads, dim), mx.float16)

    def _centred(self, coded: mx.array) -> mx.array:
        return coded if self.mean is None else coded - self.mean.astype(mx.float32)[:, None]

    def into_code_space(self, rows: mx.array) -> mx.array:
        """Rows or queries [B, H, S, D] with their channels rotated or reordered."""
        if self.rotates:
            return rows @ rotation(rows.shape[3]).astype(rows.dtype)
        if self.order is not None:
            return mx.take_along_axis(rows, self.order[None, :, None], axis=3)
        return rows

    def out_of_code_space(self, rows: mx.array) -> mx.array:
        """Undo ``into_code_space``."""
        if self.rotates:
            return rows @ rotation(rows.shape[3]).T.astype(rows.dtype)
        if self.order is not None:
            return mx.take_along_axis(rows, mx.argsort(self.order, axis=-1)[None, :, None], axis=3)
        return rows

    def coded_rows(self, dtype: mx.Dtype) -> mx.array:
        """The stored rows in code space, mean added, [B, H, coded, D]."""
        rows = self.store.decoded(dtype)
        return rows if self.mean is None else rows + self.mean.astype(dtype)[:, None]

    def reader(self, dtype: mx.Dtype, queries: int) -> Reader:
        """A reader of the codes, or of decoded rows where nothing else takes the codes' layout."""
        mean = None if self.mean is None else self.mean.astype(dtype)[None, :, None]
        space = CodeSpace(self.into_code_space, self.out_of_code_space, self.rotates, mean)
        return self.store.reader(dtype, queries, space) or super().reader(dtype, queries)

    def store_bytes(self) -> ByteCount:
        """Codes, parameters and side data (counted)."""
        if self.shape is None:
            return ByteCount()
        batch, heads, dim = self.shape
        side = self.config.side_data_bytes(heads, dim, is_key=self.is_key) if self.fitted else 0
        return self.store.byte_count(batch * heads * self.coded, dim) + ByteCount(side=side)

    def store_arrays(self) -> list[mx.array]:
        """Codes, windows, order and mean as far as they exist."""
        return self.store.arrays() + [array for array in (self.order, self.mean) if array is not None]


class SKVQKVCache(CompressedKVCache):
    """KV cache of one slot under SKVQ.

    Keys and values older than the window exist as packed codes only, in whole chunks of
    ``skvq_window`` tokens, so a prompt in any split and token-by-token decoding of the same rows give
    the same codes. Takes an SKVQConfig (or any configuration with the same fields).
    """

    key_side: SKVQSide
    value_side: SKVQSide

    def __init__(self, config: SKVQConfig, slot: int = 0) -> None:
        super().__init__(
            config,
            slot,
            SKVQSide(config, config.skvq_bits_key, is_key=True),
            SKVQSide(config, config.skvq_bits_value, is_key=False),
            window=config.skvq_window,
            n_sink=config.skvq_n_sink,
            recent=config.skvq_recent,
            defer_flush=config.skvq_defer_flush,
            max_ctx=config.skvq_max_ctx,
        )

    @property
    def compressed_key_bytes(self) -> int:
        """Codes and parameters of the keys behind the frontier, sinks left out (counted)."""
        return _compressed(self.key_side)

    @property
    def compressed_value_bytes(self) -> int:
        """Codes and parameters of the values behind the frontier, sinks left out (counted)."""
        return _compressed(self.value_side)

    @property
    def residual_fp16_bytes(self) -> int:
        """Exact rows held now: tail and sinks, keys and values (counted)."""
        count = self.byte_count()
        return count.exact + count.sinks

    @property
    def perm_bytes(self) -> int:
        """The frozen channel orders, int32, counted once."""
        return sum(side.order.nbytes for side in (self.key_side, self.value_side) if side.order is not None)

    @property
    def quantized_tokens(self) -> int:
        """Tokens behind the flush frontier, a multiple of the window, sink rows included."""
        return self.frontier

    @property
    def key_perms(self) -> mx.array | None:
        """Channel order of the keys, int32 [H, D]; None before the first flush or when not reordering."""
        return self.key_side.order

    @property
    def value_perms(self) -> mx.array | None:
        """Channel order of the values, int32 [H, D]; None before the first flush or when not reordering."""
        return self.value_side.order

    @property
    def assigned_avg_bits(self) -> float:
        """Bits per coded key element with its float16 parameters; the end-to-end ratio is another figure."""
        side = self.key_side
        if side.shape is None or not side.coded:
            return 0.0
        batch, heads, dim = side.shape
        return _compressed(side) * 8 / (batch * heads * side.coded * dim)


def _compressed(side: SKVQSide) -> int:
    count = side.store_bytes()
    return count.codes + count.parameters
