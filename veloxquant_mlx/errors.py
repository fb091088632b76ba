"""What goes wrong, in one sentence for a person: what, where and what to do."""


class VeloxQuantError(ValueError):
    """Base of every error whose message may be shown to a person as it stands."""


class QuantizerConfigError(VeloxQuantError):
    """A method was told something it cannot be told. ``field`` names the parameter at fault."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ModelError(VeloxQuantError):
    """A model cannot be found, imported or loaded."""


class CacheError(VeloxQuantError):
    """A cache was handed rows it cannot take; the cache is as it was before the call."""


class StorageError(VeloxQuantError):
    """A saved cache cannot be written, or a file is none that could be used here."""


class Cancelled(Exception):
    """Raised inside a progress callback by a caller who wants the work to stop and undo itself."""
