"""Models that were used, the last one first: found again wherever they lie."""

import logging
from collections.abc import Sequence
from pathlib import Path

from studio.core.messages import StoreError
from studio.core.store import Store

_log = logging.getLogger(__name__)
_KEY = "recent models"
MOST = 12


def recent_models(store: Store) -> list[str]:
    """Their paths, those that are gone left out; never fails."""
    try:
        kept = store.setting(_KEY)
    except StoreError as error:
        _log.warning("The models used last are left out: %s", error)
        return []
    paths = kept if isinstance(kept, list) else []
    return [path for path in paths if isinstance(path, str) and Path(path).exists()]


def note_model(store: Store, path: str, before: Sequence[str]) -> list[str]:
    """Put a model in front of those used ``before``, and keep them all; never fails."""
    paths = [path, *(other for other in before if other != path)][:MOST]
    try:
        store.set_setting(_KEY, paths)
    except StoreError as error:
        _log.warning("The models used last are not kept: %s", error)
    return paths
