"""A model that is built in milliseconds, and a store of chats."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from studio.core.store import Store
from tests.tiny import tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random llama on disk."""
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture
def store() -> Iterator[Store]:
    """The store in the data folder, closed in the end."""
    made = Store()
    yield made
    made.close()
