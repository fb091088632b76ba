"""What is said of every model before it is loaded: whether it fits, and what becomes of its cache slots."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from studio.core.fit import TOO_LARGE, Fit, fit_of
from studio.core.settings import Settings
from studio.ui.link import EngineLike
from studio.ui.models_panel import ModelsPanel
from veloxquant_mlx.config import KVCacheConfig

if TYPE_CHECKING:
    from veloxquant_mlx.planning import Machine


class Fits(QObject):
    """Follows the machine's memory, the cache setting in use and the person's limit."""

    def __init__(self, engine: EngineLike, models: ModelsPanel, settings: Callable[[], Settings]) -> None:
        super().__init__()
        self._models, self._settings = models, settings
        self.machine: Machine | None = None
        self._config: KVCacheConfig | None = None
        self._known: dict[str, tuple[Fit | None, str]] = {}
        """Path -> what was found; a long list is not worked out anew with every change of its rows."""
        engine.machine_told.connect(self._on_machine)
        engine.configured.connect(self._on_configured)
        engine.models_found.connect(lambda _: self.refresh())

    def refresh(self) -> None:
        """Something that decides has changed."""
        self._known.clear()
        self._models.set_assessment(self.of)

    def of(self, info: Any) -> tuple[Fit | None, str]:
        """Fit, None where it is unknown, and plan of a ModelInfo."""
        key = str(info.path)
        if key not in self._known:
            self._known[key] = self._find(info)
        return self._known[key]

    def objection(self, path: str) -> str:
        """Why a model should not be loaded, in one sentence; '' where nothing speaks against it."""
        info = self._models.info(path)
        fit = self.of(info)[0] if info is not None else None
        return fit.sentence if fit is not None and fit.state == TOO_LARGE else ""

    def _find(self, info: Any) -> tuple[Fit | None, str]:
        if self.machine is None or info.layout is None:
            return None, ""
        fit = fit_of(info, self._config, self.machine, self._settings().memory_limit / 100)
        return fit, "" if self._config is None else info.layout.plan(self._config).words

    def _on_machine(self, machine: "Machine") -> None:
        self.machine = machine
        self.refresh()

    def _on_configured(self, config: KVCacheConfig) -> None:
        if config != self._config:
            self._config = config
            self.refresh()
