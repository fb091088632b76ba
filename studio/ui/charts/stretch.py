"""A stretch of what stands along an axis, zoomed and moved; and the stretch of slots that all views show."""

from PySide6.QtCore import QObject, Signal

LEAST_SLOTS = 4.0
"""Slots that fill an axis at the closest look."""

Stretch = tuple[float, float]
"""First and last value on an axis."""


def zoomed(shown: Stretch | None, factor: float, at: float, whole: float, least: float) -> Stretch | None:
    """The stretch with ``factor`` times as much, ``at`` staying where it is; None for all up to ``whole``."""
    first, last = shown or (0.0, whole)
    span = max(least, (last - first) * factor)
    if span >= whole:
        return None
    return inside(at - (at - first) / (last - first) * span, span, whole)


def moved(shown: Stretch | None, by: float, whole: float) -> Stretch | None:
    """The stretch moved; all of it shown can't be."""
    if shown is None:
        return None
    first, last = shown
    return inside(first + by, last - first, whole)


def inside(first: float, span: float, whole: float) -> Stretch:
    """A stretch of a length, moved between 0 and ``whole``."""
    first = min(max(0.0, first), max(0.0, whole - span))
    return first, first + span


class SlotStretch(QObject):
    """The slots shown, all or a stretch of them: one state for every view with a place per slot."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.count = 0
        self.shown: Stretch | None = None
        """First and last slot shown, or None for all of them."""

    def take(self, count: int) -> None:
        """So many slots there are. Says nothing: whoever calls draws anyway."""
        if count != self.count:
            self.count, self.shown = count, None

    def zoom(self, factor: float, at: float) -> None:
        """Show ``factor`` times as many slots, with the one at ``at`` where it is."""
        self._set(zoomed(self.shown, factor, min(max(0.0, at), self.count), self.count, LEAST_SLOTS))

    def move(self, slots: float) -> None:
        """Move the stretch shown; all of it shown can't be moved."""
        self._set(moved(self.shown, slots, self.count))

    def reveal(self, slot: int) -> None:
        """Move the stretch as little as shows a slot whole."""
        if self.shown is not None:
            first, last = self.shown
            self.move(min(0.0, slot - first) + max(0.0, slot + 1 - last))

    def show_all(self) -> None:
        """Show all slots."""
        self._set(None)

    def _set(self, shown: Stretch | None) -> None:
        if shown != self.shown:
            self.shown = shown
            self.changed.emit()
