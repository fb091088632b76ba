"""What the window needs of an engine, so that tests can hand it another one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from studio.core.request import Request
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.steps import Step


class EngineLike(Protocol):
    """Signals arrive on the GUI thread; commands return at once."""

    methods_ready: Any
    models_found: Any
    machine_told: Any
    progress: Any
    loaded: Any
    unloaded: Any
    plan_changed: Any
    configured: Any
    started: Any
    dropped: Any
    over_limit: Any
    noted: Any
    caches_told: Any
    saving: Any
    counted: Any
    finished: Any
    failed: Any
    comparing: Any
    compared: Any
    tried: Any
    finding: Any
    answered: Any
    exported: Any
    cancelled: Any
    state_changed: Any

    @property
    def busy(self) -> bool:
        """True while a command runs."""

    @property
    def state(self) -> str:
        """``starting``, ``idle``, ``loading``, ``resuming``, ``prefill``, ``generating`` or ``rereading``."""

    def start(self) -> None:
        """Begin; answered by ``methods_ready``."""

    def find_models(self, more: Sequence[str] = ()) -> None:
        """Look for models, also at ``more`` paths; answered by ``machine_told`` and ``models_found``."""

    def load(self, path: str, anyway: bool = False) -> None:
        """Load a model folder, ``anyway`` also where memory seems too small."""

    def fetch_starter(self) -> None:
        """Fetch, convert and load the starter model."""

    def import_gguf(self, path: str) -> None:
        """Convert and load a GGUF file."""

    def unload(self) -> None:
        """Drop the model."""

    def configure(self, config: KVCacheConfig) -> None:
        """Use a cache configuration; a conversation that is held is read again through it."""

    def stop_applying(self) -> None:
        """Stop applying the configuration told last; what else runs goes on."""

    def answer(self, request: Request) -> None:
        """Answer a conversation."""

    def count(self, key: object, text: str) -> None:
        """Count the tokens of a text; answered by ``counted``."""

    def new_chat(self) -> None:
        """Forget the conversation."""

    def limit_memory(self, cache: int, wired: int) -> None:
        """Bytes that MLX may keep for reuse, and hold resident on a GPU; 0 is none."""

    def compare(self, on: bool) -> None:
        """Compare replies with the uncompressed cache from now on, or don't."""

    def try_setting(self, config: Any) -> None:
        """Try a setting on the conversation; None tries nothing."""

    def side_by_side(self, turns: Any, configs: Any, sampling: Any) -> None:
        """Answer turns through several settings; answered by ``answered``."""

    def find_smallest(self, limit: float | None) -> None:
        """Look for the smallest setting under a KL; None ends the search."""

    def keep_caches(self, store: Path | None, limit: int) -> None:
        """Save the caches of chats beside ``store`` from now on, at most ``limit`` bytes of them."""

    def remove_caches(self) -> None:
        """Remove all saved caches; answered by ``caches_told``."""

    def stop(self) -> None:
        """Stop a reply, or cancel loading or reading again."""

    def export(self, path: str, with_transcript: bool, taken: Any) -> None:
        """Write a report of what was ``Taken``."""

    def close(self, lasting: Callable[[], None] = lambda: None) -> None:
        """End the engine's thread; ``lasting`` is called where that takes longer."""

    def drain(self) -> list[Step]:
        """The steps since the last call."""
