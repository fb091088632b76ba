"""The About window says which version this is and whose work is in it."""

from importlib.metadata import version

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from studio.core.components import Component
from studio.ui import about
from studio.ui.about import AboutDialog

LISTED = [Component("veloxquant-studio", "1", "Apache-2.0", "ours"), Component("zlib", "", "Zlib", "")]


@pytest.fixture
def dialog(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> AboutDialog:
    monkeypatch.setattr(about, "components", lambda: LISTED)
    made = AboutDialog()
    qtbot.addWidget(made)
    made.show()
    qtbot.waitUntil(lambda: made.list.count() == 2)
    return made


def test_it_says_the_version_and_those_it_depends_on(dialog: AboutDialog) -> None:
    assert dialog.version.text() == f"Version {version('veloxquant-studio')}"
    assert f"mlx-lm {version('mlx-lm')}" in dialog.below.text()
    assert "unknown" not in dialog.below.text()


def test_the_chosen_component_shows_its_licence(dialog: AboutDialog) -> None:
    assert dialog.licence.text() == "veloxquant-studio 1: Apache-2.0"
    assert dialog.text.toPlainText() == "ours"
    dialog.list.setCurrentRow(1)
    assert dialog.list.currentItem().text() == "zlib"
    assert dialog.text.toPlainText() == about.NO_TEXT
    assert "2 components" in dialog.heading.text()


def test_the_versions_can_be_copied(dialog: AboutDialog) -> None:
    dialog._copy()
    copied = QGuiApplication.clipboard().text()
    assert f"veloxquant-studio: {version('veloxquant-studio')}" in copied
    assert "platform: " in copied
