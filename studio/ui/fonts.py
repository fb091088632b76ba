"""The interface font: the platform's own, or the bundled Inter where the platform has none good."""

import sys

from PySide6.QtGui import QFont, QFontDatabase, QFontInfo, QScreen

from studio.ui.assets import asset

_GOOD_ON_LINUX = ("adwaita sans", "cantarell", "noto sans", "ubuntu", "ubuntu sans", "roboto")
_BUNDLED = ("StudioInter-Regular.ttf", "StudioInter-SemiBold.ttf")
_FAMILY = "Studio Inter"
BODY_PX = 13


def text_scale(screen: QScreen | None) -> float:
    """The system's text scale, 1.0 = 100 %. Device pixels are Qt's affair and not part of it."""
    if sys.platform == "darwin" or screen is None:
        return 1.0
    return min(3.0, max(0.75, screen.logicalDotsPerInch() / 96))


def interface_font(scale: float = 1.0) -> QFont:
    """The font of everything, 13 px at 100 %, with figures of equal width."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    if sys.platform.startswith("linux") and QFontInfo(font).family().lower() not in _GOOD_ON_LINUX:
        family = _bundled_family()
        if family:
            font = QFont(family)
            # Hinting would round every advance to whole pixels and pull the words apart.
            font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    font.setPixelSize(round(BODY_PX * scale))
    font.setFeature(QFont.Tag("tnum"), 1)
    return font


def fixed_family() -> str:
    """Family of the platform's fixed-width font, for code in replies."""
    return QFontInfo(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)).family()


def _bundled_family() -> str | None:
    """Register the bundled files once; None when they are missing or unreadable."""
    if _FAMILY in QFontDatabase.families():
        return _FAMILY
    family = None
    for name in _BUNDLED:
        file = asset("fonts", name)
        if file.is_file():
            handle = QFontDatabase.addApplicationFont(str(file))
            families = QFontDatabase.applicationFontFamilies(handle) if handle >= 0 else []
            family = family or next(iter(families), None)
    return family
