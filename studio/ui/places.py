"""Where the window and its panels are, kept from one start to the next."""

import logging
from typing import Any

from PySide6.QtCore import QByteArray
from PySide6.QtWidgets import QSplitter, QWidget

from studio.core.messages import StoreError
from studio.core.store import Store

_log = logging.getLogger(__name__)
_KEY = "places"


class Places:
    """Puts a window and the splitters in it back where a person left them; neither ever fails."""

    def __init__(self, window: QWidget, store: Store) -> None:
        self._window, self._store = window, store

    def restore(self) -> None:
        """Go back to what was kept; what no longer fits stays as it is."""
        try:
            kept = self._store.setting(_KEY)
        except StoreError as error:
            _log.warning("The places of the panels are left out: %s", error)
            return
        if not isinstance(kept, dict):
            return
        geometry, panels = kept.get("window"), kept.get("panels")
        if isinstance(geometry, str):
            self._window.restoreGeometry(QByteArray.fromBase64(geometry.encode()))
        for splitter in self._splitters():
            sizes = panels.get(splitter.objectName()) if isinstance(panels, dict) else None
            if isinstance(sizes, list) and _are_sizes(sizes, splitter.count()):
                splitter.setSizes(sizes)

    def keep(self) -> None:
        """Keep where everything is now."""
        kept = {
            "window": bytes(self._window.saveGeometry().toBase64().data()).decode(),
            "panels": {splitter.objectName(): splitter.sizes() for splitter in self._splitters()},
        }
        try:
            self._store.set_setting(_KEY, kept)
        except StoreError as error:
            _log.warning("The places of the panels are not kept: %s", error)

    def _splitters(self) -> list[QSplitter]:
        return [splitter for splitter in self._window.findChildren(QSplitter) if splitter.objectName()]


def _are_sizes(sizes: list[Any], count: int) -> bool:
    """Whether these are pixels for so many panels, not all of them none."""
    whole = all(isinstance(size, int) and 0 <= size < 100_000 for size in sizes)
    return len(sizes) == count and whole and any(sizes)
