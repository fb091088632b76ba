"""A session most tests of the core begin with."""

from pathlib import Path

import pytest

from studio.core.session import Session
from veloxquant_mlx.config import KVCacheConfig


@pytest.fixture
def session(folder: Path) -> Session:
    """The tiny model behind SKVQ with a small window."""
    made = Session(KVCacheConfig(method="skvq", skvq_window=16))
    made.load(folder)
    return made
