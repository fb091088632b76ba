"""Keys as packed latent coordinates: each head's own basis, a width of bits for each latent channel."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ..quantizers.packing import Lanes, in_lanes, lanes, out_of_lanes
from ..quantizers.skvq import clip_grid, find_windows, to_float16
from ..telemetry import ByteCount, HeadBasis
from .codes import KERNEL_BITS, KERNEL_GROUPS, CodeStore
from .dump import Dump, prefixed, taken, under
from .readers import FEW_QUERIES, beside, on_cpu

_ROWS_AT_ONCE = 1024
"""Rows projected together when many are flushed: every head's rows meet every head's directions."""


class Width(NamedTuple):
    """The latent channels of one width, of all heads together: heads may differ in how many they have."""

    store: CodeStore
    """Per whole group of tokens one row of codes for each channel, [1, 1, groups * channels, group]; the
    tokens of a group as ``in_lanes`` puts them."""
    start: int
    """Number of its first channel among all stored ones."""
    heads: tuple[range, ...]
    """Its channels by head, numbered within this width."""

    @property
    def channels(self) -> slice:
        """Its channels among all stored ones."""
        return slice(self.start, self.start + self.heads[-1].stop)


class LatentStore:
    """Rows as latent coordinates ``(row - mean) . direction``, quantized in whole groups of tokens.

    Heads (batch rows are further heads here) keep their own directions; those that get 0 bits are not kept
    at all and decode to exactly 0. Channels are numbered by width, then head, then energy.

    Args:
        group: tokens that share one scale and zero point of a channel. param_bits: 16 or 8.
    """

    def __init__(self, group: int, param_bits: int) -> None:
        self.group = group
        self.param_bits = param_bits
        self.heads: tuple[HeadBasis, ...] = ()
        self.widths: tuple[Width, ...] = ()
        self.directions: mx.array | None = None
        """int8, [N, D]: one per stored channel, the largest part of each 127. Rounding them costs less than a
        hundredth of what rounding the latents does."""
        self.mean: mx.array | None = None
        """float16, [H, D]."""
        self._own_steps: mx.array | None = None
        """float16, [H, 1, N]: ``steps`` where a channel is the head's own, else 0."""

    def learn(self, mean: mx.array, directions: Sequence[np.ndarray], heads: Sequence[HeadBasis]) -> None:
        """Freeze the means [H, D], the directions [D, D] of each head in columns, and their bits."""
        kept = [
            directions[head][:, channel]
            for width in _widths(heads)
            for head, basis in enumerate(heads)
            for channel, bits in enumerate(basis.bits)
            if bits == width
        ]
        exact = np.stack(kept)
        steps = (np.abs(exact).max(axis=1, keepdims=True) / 127).astype(np.float16)
        rounded = np.clip(np.rint(exact / steps), -127, 127).astype(np.int8)
        self._freeze(to_float16(mean), mx.array(rounded), mx.array(steps), heads)

    def _freeze(
        self, mean: mx.array, directions: mx.array, steps: mx.array, heads: Sequence[HeadBasis]
    ) -> None:
        self.heads, self.mean, self.directions = tuple(heads), mean, directions
        widths = []
        owners: list[int] = []
        for bits in _widths(heads):
            start = len(owners)
            ranges = []
            for head, basis in enumerate(heads):
                first = len(owners) - start
                owners += [head] * basis.bits.count(bits)
                ranges.append(range(first, len(owners) - start))
            store = CodeStore(bits, self.group, self.param_bits, first=len(owners) - start)
            widths.append(Width(store, start, tuple(ranges)))
        self.widths = tuple(widths)
        owned = np.asarray(owners)[None, None] == np.arange(len(heads))[:, None, None]
        self._own_steps = mx.array(owned).astype(mx.float16) * steps.T

    def forget(self) -> None:
        """As it was before ``learn``."""
        self.heads, self.widths = (), ()
        self.directions = self.mean = self._own_steps = None

    @property
    def steps(self) -> mx.array | None:
        """What a direction's whole numbers are multiplied with, float16, [N, 1]."""
        return None if self._own_steps is None else self._own_steps.sum(axis=0).T

    def _basis(self, dtype: mx.Dtype) -> mx.array:
        """The stored directions as they are used, [N, D]."""
        steps = self.steps
        if self.directions is None or steps is None:
            raise ValueError("The store has no basis yet.")
        return self.directions.astype(dtype) * steps.astype(dtype)

    def project(self, rows: mx.array) -> mx.array:
        """Products of rows or queries [H, R, D] with their own head's directions, [H, R, N]; 0 elsewhere."""
        if self.directions is None or self._own_steps is None:
            raise ValueError("The store has no basis yet.")
        return (rows @ self.directions.astype(rows.dtype).T) * self._own_steps.astype(rows.dtype)

    def append(self, rows: mx.array) -> mx.array:
        """Encode rows [H, S, D], whole groups; gives each head's share of energy outside its basis, [H]."""
        if self.mean is None:
            raise ValueError("The store has no basis yet.")
        centred = rows.astype(mx.float32) - self.mean.astype(mx.float32)[:, None]
        captured = mx.zeros((len(self.heads),))
        pieces = []
        for start in range(0, rows.shape[1], _ROWS_AT_ONCE):
            latents = self.project(centred[:, start : start + _ROWS_AT_ONCE])
            captured = captured + mx.square(latents).sum(axis=(1, 2))
            pieces.append(latents.sum(axis=0))
        latents = mx.concatenate(pieces)  # [S, N]
        grouped = latents.reshape(-1, self.group, latents.shape[1]).swapaxes(1, 2)  # [groups, N, group]
        for width in self.widths:
            part = grouped[:, width.channels].reshape(1, 1, -1, self.group)
            bits = width.store.bits
            window = find_windows(part, bits, self.group, clip_grid(bits, bell_shaped=True), 1)
            width.store.append(in_lanes(part, bits), window)
        total = mx.square(centred).sum(axis=(1, 2))
        return mx.clip(1 - captured / mx.maximum(total, 1e-30), 0, 1)

    def decoded(self, dtype: mx.Dtype) -> mx.array:
        """All rows, mean added, [H, n, D]."""
        if self.mean is None:
            raise ValueError("The store has no basis yet.")
        by_width = [
            out_of_lanes(width.store.decoded(dtype), width.store.bits)
            .reshape(-1, width.heads[-1].stop, self.group)
            .swapaxes(0, 1)
            for width in self.widths
        ]  # [channels, groups, group] each
        directions = self._basis(dtype)
        rows = []
        for head in range(len(self.heads)):
            spans = [width.heads[head] for width in self.widths]
            latents = mx.concatenate(
                [by[span.start : span.stop] for by, span in zip(by_width, spans, strict=True)]
            )
            own = [
                directions[width.start + span.start : width.start + span.stop]
                for width, span in zip(self.widths, spans, strict=True)
            ]
            rows.append(latents.reshape(len(latents), -1).T @ mx.concatenate(own))
        return mx.stack(rows) + self.mean.astype(dtype)[:, None]

    def reader(self, queries: int) -> "LatentReader | None":
        """What attends on the latents without rebuilding keys, for so many query rows per head.

        None where there are too many of them or mlx's kernels can't read the latents.
        """
        if (
            queries > FEW_QUERIES
            or self.mean is None
            or not self.widths
            or self.widths[0].store.codes is None
        ):
            return None
        on_kernels = self.group in KERNEL_GROUPS and all(w.store.bits in KERNEL_BITS for w in self.widths)
        return LatentReader(self) if on_cpu() or on_kernels else None

    def truncate(self, rows: int) -> None:
        """Keep the oldest ``rows`` rows, whole groups."""
        for width in self.widths:
            width.store.truncate(rows // self.group * width.heads[-1].stop)

    def arrays(self) -> list[mx.array]:
        """Every array held."""
        frozen = (self.directions, self.mean, self._own_steps)
        codes = [array for width in self.widths for array in width.store.arrays()]
        return [array for array in frozen if array is not None] + codes

    def byte_count(self, rows: int) -> ByteCount:
        """Bytes at so many rows (closed form)."""
        frozen = (self.directions, self.mean, self._own_steps)
        count = ByteCount(side=sum(array.nbytes for array in frozen if array is not None))
        for width in self.widths:
            coded = rows // self.group * width.heads[-1].stop
            count = count + width.store.byte_count(coded, self.group)
        return count

    def dump(self) -> Dump:
        """Arrays by name and plain facts; nothing before ``learn``."""
        steps = self.steps
        if self.directions is None or steps is None or self.mean is None:
            return {}, {}
        arrays = {"directions": self.directions, "steps": steps, "mean": self.mean}
        facts: dict[str, Any] = {
            "heads": [
                {"rank": head.rank, "spectrum": list(head.spectrum), "bits": list(head.bits)}
                for head in self.heads
            ]
        }
        for width in self.widths:
            name = f"bits{width.store.bits}"
            of_width, facts[name] = width.store.dump()
            arrays |= prefixed(name, of_width)
        return arrays, facts

    def restore(
        self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any], heads: int, rows: int, dim: int
    ) -> None:
        """Hold what ``dump`` gave. Raises ValueError, KeyError or TypeError."""
        bases = [_basis(head, dim) for head in facts["heads"]]
        if len(bases) != heads or rows % self.group:
            raise ValueError("heads")
        stored = sum(sum(bits > 0 for bits in basis.bits) for basis in bases)
        self._freeze(
            taken(arrays, "mean", (heads, dim), mx.float16),
            taken(arrays, "directions", (stored, dim), mx.int8),
            taken(arrays, "steps", (stored, 1), mx.float16),
            bases,
        )
        for width in self.widths:
            name = f"bits{width.store.bits}"
            shape = (1, 1, rows // self.group * width.heads[-1].stop, self.group)
            width.store.restore(under(name, arrays), facts[name], shape)


def _widths(heads: Sequence[HeadBasis]) -> list[int]:
    """The widths in use, widest first."""
    return sorted({bits for basis in heads for bits in basis.bits if bits}, reverse=True)


def _basis(facts: Mapping[str, Any], dim: int) -> HeadBasis:
    """A head's basis from the facts of a file. Raises ValueError, KeyError or TypeError."""
    bits, spectrum = tuple(facts["bits"]), tuple(float(share) for share in facts["spectrum"])
    whole = all(type(width) is int and 0 <= width <= 8 for width in bits)
    if not whole or not any(bits) or facts["rank"] != len(bits) or not len(bits) <= dim == len(spectrum):
        raise ValueError("bits")
    return HeadBasis(len(bits), spectrum, bits)


class LatentReader:
    """Scores straight on latents: the query is projected once, then one product per width.

    ``q . k`` is ``(q V) . latent + q . mean``; the second term counts wherever exact rows share the softmax.
    A token group's scale and zero point are applied to the projected query, so codes only become numbers.
    """

    def __init__(self, store: LatentStore) -> None:
        self.store = store

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        batch, heads, rows, dim = queries.shape
        # Every head's queries stand under one another, 0 where a channel is another head's: so one product
        # serves all heads, whatever number of channels each has.
        flat = self.store.project(queries.reshape(batch * heads, rows, dim))
        flat = flat.reshape(batch * heads * rows, -1)
        found = self._on_lanes(flat) if on_cpu() else self._by_kernel(flat)
        return found.reshape(batch, heads, rows, -1)

    def shared(self, queries: mx.array) -> mx.array | None:
        """See Reader."""
        if self.store.mean is None:
            raise ValueError("The store is empty.")
        mean = self.store.mean.astype(queries.dtype).reshape(*queries.shape[:2], -1, 1)
        return queries @ mean

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader; keys are not asked for it."""
        return weights @ mx.unflatten(self.store.decoded(weights.dtype), 0, (weights.shape[0], -1))

    def _by_kernel(self, queries: mx.array) -> mx.array:
        """Products of projected queries [Q, N] with the latents, [Q, groups, group]."""
        found = []
        for width in self.store.widths:
            codes, windows = self._codes(width), width.store.windows(queries.dtype)
            lo, scale = windows.reshape(2, -1, codes.shape[1], 1)
            by_lane = mx.quantized_matmul(
                queries[None, :, width.channels], codes.view(mx.uint32), scale, lo, transpose=False,
                group_size=self.store.group, bits=width.store.bits,
            )  # fmt: skip
            found.append(out_of_lanes(by_lane, width.store.bits))
        return reduce(mx.add, found).swapaxes(0, 1)

    def _on_lanes(self, queries: mx.array) -> mx.array:
        """As ``_by_kernel``, by plain products."""
        with beside():
            numbers = [self._lanes(width).numbers(self._codes(width)) for width in self.store.widths]
            windows = [width.store.windows(mx.float32) for width in self.store.widths]
        on_codes, on_lo = [], []
        for width, of_width, window in zip(self.store.widths, numbers, windows, strict=True):
            # Each width apart: a part of the queries of all would be copied for every group of tokens.
            asked = queries[:, width.channels]
            lo, scale = mx.split(window, 2)
            groups, channels, _ = of_width.shape
            scaled = asked * scale.reshape(groups, 1, channels)
            on_codes.append(self._lanes(width).codes(scaled @ of_width))  # [groups, Q, group]
            on_lo.append(lo.reshape(groups, channels) @ asked.T)
        return (reduce(mx.add, on_codes) + reduce(mx.add, on_lo)[..., None]).swapaxes(0, 1)

    def _lanes(self, width: Width) -> Lanes:
        return lanes(width.store.bits, self.store.group)

    def _codes(self, width: Width) -> mx.array:
        """Codes of one width, uint8 [groups, N, bytes]."""
        codes = width.store.codes
        if codes is None:
            raise ValueError("The store is empty.")
        return codes.reshape(-1, width.heads[-1].stop, codes.shape[-1])
