"""A conversation's exact rows and its newest queries: what other settings are tried on without the model."""

import dataclasses
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ..compared import SlotFidelity, TellingHead
from ..config import KVCacheConfig
from ..errors import VeloxQuantError
from ..quantizers.skvq import to_float16
from ..rotary import shared_turns
from .capture import Query
from .slots import Rows, each_slot, few

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
        seen: Mapping[int, mx.array] | None = None,
        outputs: Mapping[int, mx.array] | None = None,
        tried: Iterable[SlotFidelity] = (),
        memory: int = MEMORY,
        most: int = MOST,
    ) -> None:
        """``seen`` and ``outputs`` are queries of the first tokens and attention outputs of the exact rows as
        ``each_slot`` takes them; ``tried`` is what a setting came to on these rows.
        """
        self.tokens = tokens
        self.queries = dict(queries)
        self._seen = dict(seen or {})
        self._outputs = dict(outputs or {})
        self._outputs_of_heads: dict[int, mx.array] = {}
        """As ``_outputs``, of the telling heads alone."""
        self._telling: dict[int, TellingHead] = {}
        for one in tried:
            self._note(one)
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

    def rows(self, slot: int, head: int | None = None) -> Rows | None:
        """Keys and values of a slot, or of one KV head, [B, H, tokens, D]; None where it has no such rows."""
        stored = self._slots[slot]
        if stored is None:
            return None
        keys, values = (self._get(place, head) for place in stored)
        return keys, values

    def close(self) -> None:
        """Give memory and file back."""
        self._slots, self.queries, self._seen = [], {}, {}
        self._outputs, self._outputs_of_heads = {}, {}
        self._file.close()

    def tries(
        self, model: Any, config: KVCacheConfig, slots: Sequence[int] | None = None
    ) -> Iterator[SlotFidelity]:
        """Encode the rows anew by a configuration, slot by slot: the attention-output error of each.

        The model computes nothing. ``slots`` None takes all of them, the most telling first: any beginning
        of the order is spread over the model.
        """
        order = spread(len(self)) if slots is None else slots
        with shared_turns():
            for one in each_slot(
                model, config, self.rows, self.queries, self.bounds,
                seen=self._seen, sides=False, order=order, outputs=self._outputs,
            ):  # fmt: skip
                self._note(one)
                yield one

    def estimates(self, model: Any, config: KVCacheConfig) -> Iterator[SlotFidelity]:
        """What ``tries`` will find, each slot told by one of its KV heads, in a share of the time.

        The head is the one that had most of the error at the setting tried last, and what it comes to is
        multiplied by how much more or less the slot came to then. Before the first try it stands for itself.
        """
        chosen = {
            slot: self._telling.get(slot) or TellingHead(slot % query.key_shape[1], 1.0)
            for slot, query in self.queries.items()
        }

        def rows(slot: int) -> Rows | None:
            one = chosen.get(slot)
            return None if one is None else self.rows(slot, one.head)

        queries = {slot: _few(_of_head(self.queries[slot], one.head)) for slot, one in chosen.items()}
        seen = {
            slot: self._seen[slot][:, _askers(self.queries[slot], one.head)]
            for slot, one in chosen.items()
            if slot in self._seen
        }
        with shared_turns():
            for found in each_slot(
                model, config, rows, queries, self.bounds,
                seen=seen, sides=False, order=spread(len(self)), outputs=self._outputs_of_heads,
            ):  # fmt: skip
                if found.attention_error is not None:
                    error = found.attention_error * chosen[found.slot].factor
                    yield SlotFidelity(found.slot, found.replaced, error)

    @property
    def several_heads(self) -> bool:
        """Whether one head is less than a slot."""
        return any(query.key_shape[1] > 1 for query in self.queries.values())

    def _note(self, one: SlotFidelity) -> None:
        """Which head tells the slot's error from now on."""
        if one.telling is None:
            return
        before = self._telling.get(one.slot)
        if before is None or before.head != one.telling.head:
            self._outputs_of_heads.pop(one.slot, None)
        self._telling[one.slot] = one.telling

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

    def _get(self, place: "_Place", head: int | None) -> mx.array:
        batch, heads, tokens, dim = place.shape
        each = 2 * tokens * dim
        found = bytearray()
        # By batch rows, each with all its heads side by side.
        for row in range(batch):
            self._file.seek(place.at + (row * heads + (head or 0)) * each)
            found += self._file.read(each if head is not None else each * heads)
        return mx.array(np.frombuffer(found, np.uint16)).reshape(batch, -1, tokens, dim).view(place.dtype)


def _askers(query: Query, head: int) -> slice:
    """The query heads that ask one KV head."""
    each = query.queries.shape[1] // query.key_shape[1]
    return slice(head * each, (head + 1) * each)


def _of_head(query: Query, head: int) -> Query:
    """The queries that ask one KV head."""
    own, mask = _askers(query, head), query.mask
    if isinstance(mask, mx.array) and mask.ndim == 4 and mask.shape[1] == query.queries.shape[1]:
        mask = mask[:, own]
    of_keys, of_values = ((shape[0], 1, *shape[2:]) for shape in (query.key_shape, query.value_shape))
    sinks = None if query.sinks is None else query.sinks[own]
    return dataclasses.replace(
        query, queries=query.queries[:, own], mask=mask, sinks=sinks, key_shape=of_keys, value_shape=of_values
    )


def _few(query: Query) -> Query:
    """Those of the queries that an estimate asks."""
    length, mask = query.queries.shape[2], query.mask
    asked = few(length)
    if isinstance(mask, str):
        column = mx.arange(query.key_shape[2])
        mask = column <= column[-length:, None]
    if isinstance(mask, mx.array) and mask.shape[-2] == length:
        mask = mask[..., asked, :]
    return dataclasses.replace(query, queries=query.queries[:, :, asked], mask=mask)


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
