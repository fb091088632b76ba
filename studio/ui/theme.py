"""The look in one place: colours as tokens, light and dark, following the system as it changes.

Widgets that paint themselves read ``tokens()``: the application's palette carries the scheme, so
nothing has to be told which one is on.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, fields

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from studio.ui import fonts, style
from studio.ui.assets import asset
from studio.ui.garbage import collecting_nothing
from veloxquant_mlx.report.ink import KIND_COLOURS

Scheme = Qt.ColorScheme


@dataclass(frozen=True, slots=True)
class Tokens:
    """The colours of one scheme, as ``#RRGGBB``."""

    window: str
    panel: str
    raised: str
    line: str
    text: str
    muted: str
    faint: str
    """Decoration only: too weak for words."""
    accent: str
    on_accent: str
    accent_soft: str
    """Selected rows."""
    bubble: str
    """What the person said."""
    good: str
    warn: str
    bad: str
    bad_soft: str

    def as_dict(self) -> dict[str, str]:
        """Name -> colour."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


DARK = Tokens(
    window="#14161A", panel="#1B1E24", raised="#22262E", line="#2E333D", text="#E8EAED", muted="#9AA3AF",
    faint="#6B7480", accent="#56B4E9", on_accent="#0E1116", accent_soft="#17364A", bubble="#222B33",
    good="#3DBB91", warn="#E6A532", bad="#F2916B", bad_soft="#37241F",
)  # fmt: skip
LIGHT = Tokens(
    window="#F6F7F9", panel="#FFFFFF", raised="#F0F2F5", line="#DDE1E7", text="#1A1D21", muted="#5B6470",
    faint="#8A93A0", accent="#0072B2", on_accent="#FFFFFF", accent_soft="#DFEFF9", bubble="#E9F1F7",
    good="#00714F", warn="#855700", bad="#A83A00", bad_soft="#FBEAE2",
)  # fmt: skip


def tokens_for(scheme: Scheme) -> Tokens:
    """The tokens of a scheme; an unknown one is dark."""
    return LIGHT if scheme == Scheme.Light else DARK


def scheme_of(palette: QPalette) -> Scheme:
    """Which scheme a palette was made for."""
    return Scheme.Light if palette.color(QPalette.ColorRole.Window).lightness() > 127 else Scheme.Dark


def scheme_now() -> Scheme:
    """The scheme the application is dressed in.

    Widgets ask the application: a stylesheet may have changed the window colour of their own palette.
    """
    return scheme_of(QGuiApplication.palette())


def tokens() -> Tokens:
    """The tokens the application is dressed in."""
    return tokens_for(scheme_now())


def kind_colour(kind: str, scheme: Scheme) -> QColor:
    """The one colour of a kind of byte (``BYTE_KINDS`` and ``reference``). Raises KeyError for others."""
    dark, light = KIND_COLOURS[kind]
    return QColor(light if scheme == Scheme.Light else dark)


def tint_colour(level: int, scheme: Scheme) -> QColor:
    """The colour of a token the uncompressed cache has further down: 1 among its first choices, 2 beyond.

    Amber and vermilion differ in lightness too. On paper as on a dark surface they only lie behind words.
    """
    return kind_colour("exact" if level == 1 else "sinks", scheme)


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours by the WCAG formula, 1 to 21."""

    def luminance(colour: str) -> float:
        made = QColor(colour)
        parts = (made.redF(), made.greenF(), made.blueF())
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def palette_for(scheme: Scheme) -> QPalette:
    """A full palette of a scheme, for what the stylesheet does not reach."""
    t, role = tokens_for(scheme), QPalette.ColorRole
    palette = QPalette(QColor(t.panel), QColor(t.window))
    for target, colour in {
        role.Window: t.window, role.WindowText: t.text, role.Base: t.panel, role.AlternateBase: t.raised,
        role.Text: t.text, role.Button: t.raised, role.ButtonText: t.text, role.BrightText: t.bad,
        role.PlaceholderText: t.muted, role.Highlight: t.accent, role.HighlightedText: t.on_accent,
        role.Link: t.accent, role.LinkVisited: t.accent, role.ToolTipBase: t.raised, role.ToolTipText: t.text,
        role.Mid: t.line, role.Midlight: t.raised, role.Dark: t.line, role.Light: t.panel,
        role.Shadow: t.line, role.Accent: t.accent,
    }.items():  # fmt: skip
        palette.setColor(target, QColor(colour))
    for target in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, target, QColor(t.faint))
    return palette


class Theme(QObject):
    """Keeps an application in one scheme, or in the system's."""

    def __init__(self, app: QApplication, scale: float) -> None:
        super().__init__(app)
        self._app = app
        self.scale = scale
        app.styleHints().colorSchemeChanged.connect(self._dress)

    def follow(self, scheme: Scheme | None) -> None:
        """Force a scheme, or follow the system when None."""
        hints = self._app.styleHints()
        if scheme is None:
            hints.unsetColorScheme()
        else:
            hints.setColorScheme(scheme)
        # A platform without schemes of its own ignores the request and sends no signal.
        self._dress(scheme if scheme is not None else hints.colorScheme())

    def _dress(self, scheme: Scheme) -> None:
        chevron = asset("chevron-light.svg" if scheme == Scheme.Light else "chevron-dark.svg")
        sheet = style.sheet(tokens_for(scheme).as_dict(), self.scale, chevron.as_posix())
        with collecting_nothing():
            self._app.setPalette(palette_for(scheme))
            if sheet != self._app.styleSheet():
                self._app.setStyleSheet(sheet)


@contextlib.contextmanager
def undressed(app: QApplication) -> Iterator[None]:
    """Without the stylesheet while a window is put together: each widget that changes its parent would have
    all below it dressed anew, which takes longer than all the rest. It is dressed once, at the end."""
    sheet = app.styleSheet()
    app.setStyleSheet("")
    try:
        yield
    finally:
        with collecting_nothing():
            app.setStyleSheet(sheet)


def apply_appearance(name: str) -> None:
    """``light``, ``dark`` or ``system`` for the running application, at the text size it has."""
    app = QApplication.instance()
    theme = next((c for c in app.children() if isinstance(c, Theme)), None) if app else None
    if theme is not None:
        theme.follow({"light": Scheme.Light, "dark": Scheme.Dark}.get(name))


def apply_theme(app: QApplication, scheme: Scheme | None = None, scale: float | None = None) -> Theme:
    """Dress an application: style, fonts, palette and stylesheet; live when the system changes.

    ``scheme`` None follows the system. ``scale`` is the text scale, 1.0 = 100 %; None takes the
    system's. Calling again changes the scheme of the same Theme.
    """
    theme = next((c for c in app.children() if isinstance(c, Theme)), None)
    if theme is None:
        app.setStyle("Fusion")
        theme = Theme(app, 1.0)
    theme.scale = scale if scale is not None else fonts.text_scale(QGuiApplication.primaryScreen())
    app.setFont(fonts.interface_font(theme.scale))
    theme.follow(scheme)
    return theme
