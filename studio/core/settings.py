"""What a person has decided once, for every chat; declared like a method's parameters, kept in the store."""

import dataclasses
import logging
from dataclasses import dataclass
from typing import TypeVar

from studio.core.messages import StoreError
from studio.core.store import Store
from veloxquant_mlx.declared import Declared, param
from veloxquant_mlx.errors import QuantizerConfigError

_log = logging.getLogger(__name__)


DROP = "drop the oldest"
"""What happens at the limit instead of stopping."""


@dataclass(frozen=True)
class Settings(Declared):
    """For all chats."""

    system: str = param(
        "", label="System prompt of new chats", lines=4,
        help="What the model is told before every new chat. Its tokens are read with each of them.",
    )  # fmt: skip
    at_limit: str = param(
        "stop", label="When the context is full", choices=("stop", DROP),
        help="Stop there, or leave the oldest messages out of what the model reads and read the rest again.",
    )  # fmt: skip
    cache_limit: float = param(
        2.0, label="Disk space for saved caches", unit="GB", low=0, high=64, step=0.5,
        help="A chat whose cache is saved goes on without being read again. Above this the longest unused "
        "are removed; 0 saves none.",
    )  # fmt: skip
    compare: bool = param(
        True, label="Compare replies with the uncompressed cache",
        help="After a reply, while nothing else is to be done, the conversation is read once more without "
        "compression: what the cache changed is then measured and shown. It takes processor time and, for as "
        "long, the memory of an uncompressed cache.",
    )  # fmt: skip
    memory_limit: int = param(
        85, label="Memory that may be used", unit="%", low=20, high=100, step=5,
        help="Share of this machine's memory. Above it a model is said not to fit, and a message that would "
        "pass it asks first.",
    )  # fmt: skip
    mlx_cache: float = param(
        2.0, label="Memory MLX keeps for reuse", unit="GB", low=0, high=64, step=0.5,
        help="Freed memory is held ready for the next step, not given back; 0 keeps none and is slower.",
    )  # fmt: skip
    mlx_wired: float = param(
        0.0, label="Memory wired for the GPU", unit="GB", low=0, high=256, step=1,
        help="On Metal so much stays resident and is never swapped. 0 leaves it to the system, which is "
        "safe; too much can bring the whole machine to a halt.",
    )  # fmt: skip
    appearance: str = param(
        "system", label="Appearance", choices=("system", "light", "dark"),
        help="Light or dark, or as the system is set.",
    )  # fmt: skip
    keep_awake: bool = param(
        True, label="Keep the computer awake while a reply is written",
        help="Asks the system not to fall asleep until the reply ends.",
    )  # fmt: skip
    notify: bool = param(
        True, label="Tell me when a long wait ends while the window is hidden",
        help="After prompts and loads that took longer than ten seconds.",
    )  # fmt: skip


D = TypeVar("D", bound=Declared)


def read_kept(kind: type[D], kept: object) -> D:
    """A record from what was kept of it; a value that this version can't take is the default."""
    made = kind()
    for spec in kind.fields():
        if isinstance(kept, dict) and spec.name in kept:
            try:
                made = dataclasses.replace(made, **{spec.name: kept[spec.name]})
            except QuantizerConfigError as error:
                _log.warning("A setting is left out: %s", error)
    return made


def load(store: Store, kind: type[D]) -> D:
    """The record of this kind as it was kept; never fails."""
    try:
        return read_kept(kind, store.setting(_key(kind)))
    except StoreError as error:
        _log.warning("The settings are left out: %s", error)
        return kind()


def save(store: Store, record: Declared) -> None:
    """Keep a record, beside fields that only other versions know. Raises StoreError."""
    kept = store.setting(_key(type(record)))
    store.set_setting(_key(type(record)), (kept if isinstance(kept, dict) else {}) | record.as_dict())


def _key(kind: type[Declared]) -> str:
    return kind.__name__.lower()
