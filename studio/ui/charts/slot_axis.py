"""An axis with a place per slot: its numbers, and how hand and keys zoom it and walk along it."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF

from studio.ui.charts.plot import ZOOM, QuietPlot
from studio.ui.charts.stretch import SlotStretch, Stretch

_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def walk(
    key: Qt.Key, now: int | None, count: int, back: Qt.Key = Qt.Key.Key_Left, on: Qt.Key = Qt.Key.Key_Right
) -> int | None:
    """Where a key leads among ``count`` places in a row, or None for other keys and no places."""
    last = count - 1
    moves = {
        back: last if now is None else max(0, now - 1),
        on: 0 if now is None else min(last, now + 1),
        Qt.Key.Key_Home: 0,
        Qt.Key.Key_End: last,
    }
    return moves.get(key) if count else None


def slot_ticks(
    count: int, pitch: float, metrics: QFontMetricsF, shown: Stretch | None = None
) -> list[tuple[float, str]]:
    """Numbers in the middle of those of ``count`` slots that are ``shown``, ``pitch`` pixels apart."""
    label = metrics.horizontalAdvance("0000") * 1.6
    step = next(s for s in _STEPS if s * pitch >= label or s == _STEPS[-1])
    first, last = shown or (0.0, float(count))
    return [(slot + 0.5, str(slot)) for slot in range(0, count, step) if first <= slot + 0.5 <= last]


def follow_hand(plot: QuietPlot, slots: SlotStretch) -> None:
    """Wheel and drag over a plot with slots along its bottom zoom and move them."""
    plot.movable = True
    plot.zoomed.connect(lambda factor, at, _up: slots.zoom(factor, at.x()))
    plot.dragged.connect(lambda along, _up: slots.move(along))


def zoom_key(key: Qt.Key, slots: SlotStretch, picked: int | None) -> bool:
    """Act on a key that zooms slots, around the picked one where there is one."""
    first, last = slots.shown or (0.0, float(slots.count))
    at = (first + last) / 2 if picked is None else picked + 0.5
    if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
        slots.zoom(1 / ZOOM, at)
    elif key == Qt.Key.Key_Minus:
        slots.zoom(ZOOM, at)
    elif key == Qt.Key.Key_0:
        slots.show_all()
    else:
        return False
    return True
