"""How the cache grew: one row of numbers per token count, kept as growing columns."""

from typing import Any

import numpy as np

from studio.core.slot_history import FIXED, SlotHistory
from veloxquant_mlx.steps import FinishedStep, PrefillStep, Step, TokenStep
from veloxquant_mlx.telemetry import BYTE_KINDS, CacheSnapshot

_FIRST_CAPACITY = 1024

_COLUMNS: dict[str, Any] = {
    "tokens": np.uint32,
    **dict.fromkeys(BYTE_KINDS, np.uint64),
    "resident": np.uint64,
    "reference": np.uint64,
    "active_memory": np.uint64,
    "frontier": np.float32,
}


class History:
    """The columns of one conversation, filled from the steps of its replies.

    ``tokens`` rises strictly from row to row. The kinds of BYTE_KINDS and ``reference`` are counted
    bytes over all slots, ``resident`` and ``active_memory`` measured bytes; ``frontier`` is the smallest
    flush frontier of the slots in tokens, NaN where no slot reports one. Every slot's own figures at every
    row come from ``moment``.

    A cache that was rewound or filled anew does not leave the rows of its former self behind: a
    prefill that starts at token count S drops the rows beyond S, and any snapshot drops the rows at and
    beyond its own token count.
    """

    def __init__(self) -> None:
        self._version = 0
        self._slots = SlotHistory()
        self.clear()

    def clear(self) -> None:
        """Forget everything, as for a new conversation. Releases the columns."""
        self._data = {name: np.empty(_FIRST_CAPACITY, dtype) for name, dtype in _COLUMNS.items()}
        self._peaks = np.empty(_FIRST_CAPACITY, np.uint64)
        self._slots.clear()
        self._rows = 0
        self._pieces: list[str | None] = []
        self._marks: list[int] = []
        self._snapshot: CacheSnapshot | None = None
        self._prefilled: int | None = None
        """Prompt tokens read so far by the prefill that is running, None outside one."""
        self._version += 1

    def __len__(self) -> int:
        """Number of rows."""
        return self._rows

    @property
    def version(self) -> int:
        """Rises with every change; equal versions mean equal contents."""
        return self._version

    @property
    def snapshot(self) -> CacheSnapshot | None:
        """The newest snapshot, for views per slot."""
        return self._snapshot

    @property
    def turn_marks(self) -> tuple[int, ...]:
        """Token counts at which a reply began, rising."""
        return tuple(self._marks)

    @property
    def nbytes(self) -> int:
        """Bytes of all figures kept (counted)."""
        return sum(c.nbytes for c in self._data.values()) + self._peaks.nbytes + self._slots.nbytes

    def moment(self, tokens: int) -> CacheSnapshot | None:
        """The snapshot at the last row with at most ``tokens`` tokens, or None before the first row.

        A very long history keeps its distant past in larger steps; the snapshot's own ``tokens`` says
        which row it is.
        """
        held = self._data["tokens"][: self._rows]
        while row := int(np.searchsorted(held, tokens, "right")):
            asked = int(held[row - 1])
            tokens = self._slots.before_gap(asked)
            if tokens == asked:
                active, peak = int(self._data["active_memory"][row - 1]), int(self._peaks[row - 1])
                return CacheSnapshot(asked, self._slots.layers(asked), active, peak)
        return None

    def piece(self, position: int) -> str | None:
        """Text of the token at a position of the cache, as the model's vocabulary has it; None if unknown.

        It was written by whoever wrote the prompt: show it as plain text only.
        """
        return self._pieces[position] if 0 <= position < len(self._pieces) else None

    def mark_turns(self, marks: tuple[int, ...]) -> None:
        """Take over where replies began: what is read again was written in turns once."""
        self._marks = [mark for mark in marks if self._snapshot and mark < self._snapshot.tokens]
        self._version += 1

    def slots_as_dict(self) -> dict[str, Any]:
        """Every slot at every row, JSON-ready and independent of later changes; see the report's schema."""
        return self._slots.as_dict()

    def columns(self) -> dict[str, np.ndarray]:
        """Column name -> read-only view of its rows, valid until the next change."""
        views = {name: column[: self._rows] for name, column in self._data.items()}
        for view in views.values():
            view.flags.writeable = False
        return views

    def append(self, step: Step) -> None:
        """Take in the snapshot of one step."""
        snapshot = step.snapshot
        if isinstance(step, PrefillStep):
            # A prefill that failed leaves no closing step: one that reads no further than it is another.
            if self._prefilled is None or step.done <= self._prefilled:
                self._cut(max(0, snapshot.tokens - step.done) + 1)
            self._prefilled = step.done
        else:
            self._prefilled = None
        self._cut(snapshot.tokens)
        self._read(() if isinstance(step, FinishedStep) else step.pieces, snapshot.tokens)
        if isinstance(step, TokenStep) and step.count == 1:
            mark = max(0, snapshot.tokens - 1)
            if not self._marks or self._marks[-1] < mark:
                self._marks.append(mark)
        self._write(snapshot)
        self._snapshot = snapshot
        self._version += 1

    def _cut(self, tokens: int) -> None:
        """Drop the rows at and beyond a token count, and the marks beyond it."""
        if self._rows and int(self._data["tokens"][self._rows - 1]) >= tokens:
            self._rows = int(np.searchsorted(self._data["tokens"][: self._rows], tokens))
            self._slots.cut(int(self._data["tokens"][self._rows - 1]) if self._rows else -1)
        while self._marks and self._marks[-1] >= tokens:
            self._marks.pop()

    def _read(self, pieces: tuple[str, ...], tokens: int) -> None:
        """Note the texts of the newest of ``tokens`` tokens; what was there from their first on is gone."""
        first = max(0, tokens - len(pieces))
        del self._pieces[first:]
        self._pieces += [None] * (first - len(self._pieces))
        self._pieces += pieces

    def _write(self, snapshot: CacheSnapshot) -> None:
        if self._rows == len(self._peaks):
            self._data = {name: _doubled(column) for name, column in self._data.items()}
            self._peaks = _doubled(self._peaks)
        row, data = self._rows, self._data
        for name, total in zip(FIXED, self._slots.append(snapshot).tolist(), strict=True):
            data[name][row] = total
        data["tokens"][row] = snapshot.tokens
        data["active_memory"][row] = snapshot.active_memory
        self._peaks[row] = snapshot.peak_memory
        frontier = snapshot.gauge("frontier")
        data["frontier"][row] = np.nan if frontier is None else frontier
        self._rows += 1


def _doubled(column: np.ndarray) -> np.ndarray:
    grown = np.empty(2 * len(column), column.dtype)
    grown[: len(column)] = column
    return grown
