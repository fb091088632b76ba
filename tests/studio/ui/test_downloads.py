"""Downloads in processes of their own, from a stand-in for the Hub."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from studio.ui.downloads import Downloads
from tests.hub_server import Hub, serving
from tests.tiny import tiny_folder
from veloxquant_mlx import paths
from veloxquant_mlx.errors import ModelError
from veloxquant_mlx.models import hub

NAME = "people/tiny"
LONG = 60_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()
    made.add(NAME, tiny_folder(tmp_path / "source"))
    with serving(made):
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        yield made


@pytest.fixture
def downloads(qtbot: QtBot, server: Hub) -> Iterator[Downloads]:
    made = Downloads()
    yield made
    made.close()


def halfway(qtbot: QtBot, server: Hub, downloads: Downloads) -> None:
    """Have a download stand in the middle of its weights."""
    server.hold = threading.Event()
    downloads.start(NAME)
    qtbot.waitUntil(server.halfway.is_set, timeout=LONG)
    qtbot.waitUntil(lambda: (downloads.all()[0].share or 0) > 0.3, timeout=LONG)


def release(server: Hub) -> None:
    assert server.hold is not None
    server.hold.set()
    server.hold = None


def test_a_model_comes_and_its_folder_is_told(qtbot: QtBot, downloads: Downloads) -> None:
    with qtbot.waitSignal(downloads.ended, timeout=LONG) as ended:
        downloads.start(NAME)
        assert downloads.all()[0].is_running
    assert ended.args == [str(paths.models_dir() / NAME)]
    assert (paths.models_dir() / NAME / "config.json").is_file() and downloads.all() == []


def test_pause_and_go_on(qtbot: QtBot, server: Hub, downloads: Downloads) -> None:
    halfway(qtbot, server, downloads)
    assert " of " in downloads.all()[0].words
    downloads.pause(NAME)
    qtbot.waitUntil(lambda: not downloads.all()[0].is_running, timeout=LONG)
    assert downloads.all()[0].words.startswith("Stopped at ")
    release(server)
    server.asked.clear()
    with qtbot.waitSignal(downloads.ended, timeout=LONG):
        downloads.start(NAME)
    file, asked = server.asked[0]
    assert file == "model.safetensors" and asked not in ("", "bytes=0-")


def test_cancel_leaves_nothing(qtbot: QtBot, server: Hub, downloads: Downloads) -> None:
    halfway(qtbot, server, downloads)
    downloads.give_up(NAME)
    qtbot.waitUntil(lambda: downloads.all() == [], timeout=LONG)
    assert hub.unfinished() == [] and list((paths.models_dir() / "people").iterdir()) == []


def test_closing_pauses_and_the_next_window_finds_it(qtbot: QtBot, server: Hub, downloads: Downloads) -> None:
    halfway(qtbot, server, downloads)
    downloads.close()
    release(server)
    later = Downloads()
    later.look()
    (found,) = later.all()
    assert found.repository == NAME and not found.is_running and 0 < (found.share or 0) < 1
    later.give_up(NAME)
    assert later.all() == [] and hub.unfinished() == []


def test_what_goes_wrong_is_one_sentence(qtbot: QtBot, server: Hub, downloads: Downloads) -> None:
    with qtbot.waitSignal(downloads.failed, timeout=LONG) as failed:
        downloads.start("people/none")
    assert "There is no model people/none" in failed.args[0] and downloads.all() == []
    with pytest.raises(ModelError, match="owner/name"):
        downloads.start("not a name")
    assert downloads.all() == []


def test_off_line_is_said_and_what_came_is_kept(
    qtbot: QtBot, server: Hub, downloads: Downloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    halfway(qtbot, server, downloads)
    downloads.pause(NAME)
    qtbot.waitUntil(lambda: not downloads.all()[0].is_running, timeout=LONG)
    release(server)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with qtbot.waitSignal(downloads.failed, timeout=LONG) as failed:
        downloads.start(NAME)
    assert "can't be reached: check the network" in failed.args[0]
    assert downloads.all()[0].words.startswith("Stopped at ")
