"""Colours, fonts and the stylesheet."""

import itertools
import re

import pytest
from PySide6.QtGui import QColor, QFont, QFontInfo, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from studio.ui import fonts, style
from studio.ui.blocks import CodeBlock
from studio.ui.segments import Segment
from studio.ui.theme import (
    DARK,
    LIGHT,
    Scheme,
    Tokens,
    apply_theme,
    contrast,
    kind_colour,
    palette_for,
    scheme_now,
    scheme_of,
    tokens,
)
from veloxquant_mlx.telemetry import BYTE_KINDS


def test_contrast_is_the_known_formula() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("t", [DARK, LIGHT], ids=["dark", "light"])
def test_words_reach_four_and_a_half_on_every_surface(t: Tokens) -> None:
    surfaces = [t.window, t.panel, t.raised, t.accent_soft, t.bubble, t.bad_soft]
    for words, surface in itertools.product([t.text, t.muted], surfaces):
        assert contrast(words, surface) >= 4.5, (words, surface)
    for words, surface in itertools.product([t.good, t.warn, t.bad], [t.panel, t.raised, t.accent_soft]):
        assert contrast(words, surface) >= 4.5, (words, surface)
    assert contrast(t.on_accent, t.accent) >= 4.5
    for surface in (t.window, t.panel, t.raised):
        assert contrast(t.accent, surface) >= 3, "the focus ring must be seen"


@pytest.mark.parametrize("scheme", [Scheme.Dark, Scheme.Light])
def test_code_reaches_four_and_a_half_in_each_of_its_colours(
    qtbot: QtBot, qapp: QApplication, scheme: Scheme
) -> None:
    apply_theme(qapp, scheme, 1.0)
    block = CodeBlock("python")
    qtbot.addWidget(block)
    block.show_segment(Segment("code", '# why\nfor sky in range(42):\n    print("blue", sky)'))
    block.resize(400, 160)
    surface = block.grab().toImage().pixelColor(200, 150).name()
    line = block.view.document().begin()
    colours = set()
    while line.isValid():
        colours |= {span.format.foreground().color().name() for span in line.layout().formats()}
        line = line.next()
    assert len(colours) == 4, "comment, keyword, number and text differ"
    for colour in (*colours, tokens().text):
        assert contrast(colour, surface) >= 4.5, (colour, surface)


@pytest.mark.parametrize("scheme", [Scheme.Dark, Scheme.Light])
def test_each_kind_of_byte_has_a_colour_of_its_own(scheme: Scheme) -> None:
    colours = [kind_colour(kind, scheme).name() for kind in (*BYTE_KINDS, "reference")]
    assert len(set(colours)) == len(colours)
    with pytest.raises(KeyError):
        kind_colour("weights", scheme)


def test_a_palette_tells_its_scheme() -> None:
    assert scheme_of(palette_for(Scheme.Dark)) == Scheme.Dark
    assert scheme_of(palette_for(Scheme.Light)) == Scheme.Light


def test_another_scheme_dresses_the_running_application(qapp) -> None:  # type: ignore[no-untyped-def]
    theme = apply_theme(qapp, Scheme.Light, 1.0)
    assert tokens() is LIGHT and LIGHT.panel in qapp.styleSheet()
    assert apply_theme(qapp, Scheme.Dark, 1.0) is theme
    assert scheme_now() == Scheme.Dark and DARK.panel in qapp.styleSheet()
    assert qapp.palette().color(QPalette.ColorRole.Highlight) == QColor(DARK.accent)


def test_the_system_changing_its_mind_is_followed(qapp) -> None:  # type: ignore[no-untyped-def]
    theme = apply_theme(qapp, None, 1.0)
    qapp.styleHints().colorSchemeChanged.emit(Scheme.Light)
    assert tokens() is LIGHT
    qapp.styleHints().colorSchemeChanged.emit(Scheme.Dark)
    assert tokens() is DARK
    assert theme.scale == 1.0


def test_the_sheet_has_no_hole_and_grows_with_the_text() -> None:
    once, twice = style.sheet(DARK.as_dict(), 1.0), style.sheet(DARK.as_dict(), 2.0)
    assert "$" not in once
    assert {int(n) for n in re.findall(r"font-size: (\d+)px", once)} == {11, 12, 13, 17}
    assert {int(n) for n in re.findall(r"font-size: (\d+)px", twice)} == {22, 24, 26, 34}
    assert "border: 2px solid" in twice


def test_the_font_has_figures_of_equal_width(qapp) -> None:  # type: ignore[no-untyped-def]
    font = fonts.interface_font(1.0)
    assert font.pixelSize() == 13
    assert font.featureValue(QFont.Tag("tnum")) == 1
    assert "DejaVu" not in QFontInfo(font).family()
    assert fonts.interface_font(2.0).pixelSize() == 26


@pytest.mark.parametrize(
    "folder", ["/plain", "/with spaces/Ünïcode 試し", "/a (1); b { }", '/said "so"/back\\slash']
)
def test_qt_takes_the_sheet_wherever_the_app_lies(qapp, qtlog, folder: str) -> None:  # type: ignore[no-untyped-def]
    before = qapp.styleSheet()
    try:
        qapp.setStyleSheet(style.sheet(DARK.as_dict(), 1.0, f"{folder}/chevron.svg"))
    finally:
        qapp.setStyleSheet(before)
    assert [record.message for record in qtlog.records if "parse" in record.message] == []
