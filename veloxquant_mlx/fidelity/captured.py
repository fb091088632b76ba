"""A conversation's exact rows and its newest queries: what other settings are tried on without the model."""

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ..compared import SlotFidelity
from ..config import KVCacheConfig
from ..errors import VeloxQuantError
from ..quantizers.skvq import to_float16
from .capture import Query
from .slots import Rows, each_slot

MEMORY = 128 << 20
"""Bytes of rows kept in memory; beyond them they go to a temporary file without a name."""
MOST = 2 << 30
"""Bytes kept at all."""
BLOCK = 4096
"""Rows handed to a cache at once: what is learnt from the first and every call costs counts once a block."""


def refuse_too_many(nbytes: int, most: int = MOST) -> None:
    """Raises VeloxQuantError for more bytes of rows than are kept."""
    if nbytes > most:
        raise VeloxQuantError(
            f"Other settings can't be tried on this conversation: its keys and values take "
            f"{nbytes / 1e9:.1f} GB, and {most / 1e9:.1f} GB are kept at most."
        )


class Captured:
    """Keys and values of every slot in 16 bits, and the queries of the last pass, which attend to them.

    Rows are kept outside MLX's memory, whose figures are the conversation's, and taken up one slot at a time.
    Raises VeloxQuantError where they are more than ``most`` bytes or the disk has no room.
    """

    def __init__(
        self,
        rows: Sequence[Rows | None],
        queries: Mapping[int, Query],
        tokens: int,
        *,
        outputs: Mapping[int, mx.array] | None = None,
        memory: int = MEMORY,
        most: int = MOST,
    ) -> None:
        """``outputs`` are attention outputs of the exact rows that are known already, see ``each_slot``."""
        self.tokens = tokens
        self.queries = dict(queries)
        self._outputs = dict(outputs or {})
        newest = min((query.queries.shape[2] for query in queries.values()), default=0)
        self.bounds = sorted({*range(0, tokens - newest, BLOCK), tokens - newest, tokens})
        """Where blocks begin and end: the queries' own rows are the last."""
        self.nbytes = sum(2 * part.size for pair in rows if pair is not None for part in pair)
        """Bytes kept (counted)."""
        self.spilled = self.nbytes > memory
        """Whether they are on disk."""
        refuse_too_many(self.nbytes, most)
        self._file = tempfile.SpooledTemporaryFile(max_size=memory)  # noqa: SIM115
        self._slots = [None if pair is None else [self._put(part) for part in pair] for pair in rows]

    def __len__(self) -> int:
        """Slots of the model's cache list."""
        return len(self._slots)

    def rows(self, slot: int) -> Rows | None:
        """Keys and values of a slot, [B, H, tokens, D]; None for a slot without such rows."""
        stored = self._slots[slot]
        if stored is None:
            return None
        keys, values = map(self._get, stored)
        return keys, values

    def close(self) -> None:
        """Give memory and file back."""
        self._slots, self.queries, self._outputs = [], {}, {}
        self._file.close()

    def tries(
        self, model: Any, config: KVCacheConfig, slots: Sequence[int] | None = None
    ) -> Iterator[SlotFidelity]:
        """Encode the rows anew by a configuration, slot by slot: the attention-output error of each.

        The model computes nothing. ``slots`` None takes all of them, the most telling first: any beginning
        of the order is spread over the model.
        """
        order = spread(len(self)) if slots is None else slots
        yield from each_slot(
            model, config, self.rows, self.queries, self.bounds,
            sides=False, order=order, outputs=self._outputs,
        )  # fmt: skip

    def _put(self, part: mx.array) -> "_Place":
        part = part[:, :, : self.tokens]
        small = part if part.dtype == mx.bfloat16 else to_float16(part)
        try:
            at = self._file.seek(0, os.SEEK_END)
            self._file.write(np.array(mx.contiguous(small).view(mx.uint16)).tobytes())
        except OSError as error:
            raise VeloxQuantError(
                "Other settings can't be tried: there is no room on the disk for the conversation's keys and "
                f"values ({(error.strerror or str(error)).lower()})."
            ) from error
        return _Place(at, small.shape, small.dtype)

    def _get(self, place: "_Place") -> mx.array:
        self._file.seek(place.at)
        data = self._file.read(2 * math.prod(place.shape))
        return mx.array(np.frombuffer(data, np.uint16)).reshape(place.shape).view(place.dtype)


class _Place(NamedTuple):
    """Where an array is in the file."""

    at: int
    shape: tuple[int, ...]
    dtype: mx.Dtype


def spread(count: int) -> list[int]:
    """0 to ``count`` - 1 in an order whose every beginning is spread out: halves, quarters, eighths.

    Digits of the place in base 2, read backwards (van der Corput).
    """
    bits = max(1, (count - 1).bit_length())
    turned = (int(f"{n:0{bits}b}"[::-1], 2) for n in range(1 << bits))
    return [n for n in turned if n < count]
