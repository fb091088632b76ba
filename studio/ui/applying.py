"""From the setting a person lets go of to the setting in use: one at a time, and the newest wins."""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from studio.ui.link import EngineLike
from veloxquant_mlx.config import KVCacheConfig


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the settings stand."""

    in_use: KVCacheConfig | None = None
    """What the engine works with."""
    running: KVCacheConfig | None = None
    """What the engine was told and has not answered yet."""
    queued: KVCacheConfig | None = None
    """What waits for the end of a reply, or of what runs."""


class Applying(QObject):
    """Hands settings to the engine while it is free.

    A setting that is asked for during a reply waits for its end. One that is asked for while another is
    being applied takes its place. ``changed`` when the standing did.
    """

    changed = Signal()

    def __init__(self, engine: EngineLike) -> None:
        super().__init__()
        self._engine = engine
        self._replying = False
        self.standing = Standing()
        engine.configured.connect(self._on_configured)
        engine.cancelled.connect(self._on_ended)
        engine.failed.connect(self._on_ended)

    def ask(self, config: KVCacheConfig) -> None:
        """Use a configuration as soon as can be."""
        now = self.standing
        if now.running is None and not self._replying:
            if config != now.in_use:
                self._tell(config)
            return
        if now.running not in (None, config):
            self._engine.stop_applying()
        # Also what runs: it may have been stopped a moment ago.
        self._stand(Standing(now.in_use, now.running, config))

    def cancel(self) -> None:
        """Keep what is in use: what waits is dropped, and what runs is stopped."""
        now = self.standing
        if now.running is not None:
            self._engine.stop_applying()
        self._stand(Standing(now.in_use, now.running))

    def forget(self) -> None:
        """The conversation is gone and what ran for it was stopped: the setting itself is still wanted."""
        now = self.standing
        self._stand(Standing(now.in_use, now.running, now.queued or now.running))

    def set_replying(self, replying: bool) -> None:
        """Whether a reply runs; what waited for its end is told to the engine now."""
        self._replying = replying
        self._go_on()

    def _go_on(self) -> None:
        now = self.standing
        if now.queued is None or now.running is not None or self._replying:
            return
        if now.queued == now.in_use:
            self._stand(Standing(now.in_use))
        else:
            self._tell(now.queued)

    def _tell(self, config: KVCacheConfig) -> None:
        self._stand(Standing(self.standing.in_use, config))
        self._engine.configure(config)

    def _on_configured(self, config: KVCacheConfig) -> None:
        self._stand(Standing(config, None, self.standing.queued))
        self._go_on()

    def _on_ended(self, where: str, *_details: str) -> None:
        if where == "cache":
            self._stand(Standing(self.standing.in_use, None, self.standing.queued))
            self._go_on()

    def _stand(self, standing: Standing) -> None:
        if standing != self.standing:
            self.standing = standing
            self.changed.emit()
