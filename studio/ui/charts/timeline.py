"""Which tokens the views show and which moment: one state for all of them."""

from PySide6.QtCore import QObject, Signal

from studio.ui.charts.stretch import Stretch, moved, zoomed

LEAST = 16.0
"""Tokens that fill the width at the closest look."""
LEAST_HEIGHT = 1 / 64


class Timeline(QObject):
    """The tokens shown (all, or a stretch of them) and the moment shown (the newest, or a held one).

    Live, the views go with the newest token. Whoever looks away from it, by zooming, moving or going back
    in time, holds the moment: everything stands still until ``go_live``.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.newest = 0
        """Tokens of the newest row."""
        self.moment: int | None = None
        """Tokens of the held moment, or None while live."""
        self.shown: Stretch | None = None
        """First and last token shown, or None for all of them."""
        self.height = 1.0
        """How much of its height a view of amounts shows, from its foot."""

    @property
    def live(self) -> bool:
        """Whether the newest moment is shown."""
        return self.moment is None

    @property
    def closer(self) -> bool:
        """Whether less than everything is shown."""
        return self.shown is not None or self.height < 1

    def grow(self, newest: int) -> None:
        """Rows came, or a rewind took some away. Says nothing: whoever calls draws anyway."""
        step, self.newest = newest - self.newest, newest
        if self.moment is not None and self.moment > newest:
            self.moment = None
        if self.shown is not None and self.live:
            self.shown = (self.shown[0] + step, self.shown[1] + step)
            if self.shown[0] < 0:
                self.shown = None

    def forget(self) -> None:
        """As for a new conversation."""
        self.newest, self.moment, self.shown, self.height = 0, None, None, 1.0
        self.changed.emit()

    def hold(self, tokens: int) -> None:
        """Show the moment at a token count."""
        self._set(self.shown, tokens)

    def go_live(self) -> None:
        """Show the newest moment, in the stretch of tokens that ends with it."""
        shown = self.shown
        if shown is not None and not shown[0] <= self.newest <= shown[1]:
            span = shown[1] - shown[0]
            shown = (self.newest - 0.95 * span, self.newest + 0.05 * span)
        self._set(shown if shown is None or shown[0] > 0 else None, None)

    def show_all(self) -> None:
        """Show all tokens and the whole height."""
        self._set(None, self.moment, 1.0)

    def zoom_up(self, factor: float) -> None:
        """Show ``factor`` times as much of the height."""
        self._set(self.shown, self.moment, min(1.0, max(LEAST_HEIGHT, self.height * factor)))

    def zoom(self, factor: float, at: float, whole: float) -> None:
        """Show ``factor`` times as many tokens, with the one at ``at`` where it is.

        Args:
            whole: the last token on the axis when all are shown.
        """
        self._look(zoomed(self.shown, factor, at, whole, LEAST))

    def move(self, tokens: float, whole: float) -> None:
        """Move the stretch shown; all of it shown can't be moved."""
        self._look(moved(self.shown, tokens, whole))

    def _look(self, shown: Stretch | None) -> None:
        moment = self.moment
        if self.live and shown is not None and not shown[0] <= self.newest <= shown[1]:
            moment = self.newest
        self._set(shown, moment)

    def _set(self, shown: Stretch | None, moment: int | None, height: float | None = None) -> None:
        now = (shown, moment, self.height if height is None else height)
        if now != (self.shown, self.moment, self.height):
            self.shown, self.moment, self.height = now
            self.changed.emit()
