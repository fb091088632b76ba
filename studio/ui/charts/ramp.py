"""A ramp of one hue in perceptually even steps, for amounts such as ranks and bits."""

import math
from functools import lru_cache

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from studio.ui.charts.ink import ink, small
from studio.ui.theme import Scheme

STEPS = 64
_HUE, _CHROMA = math.radians(240), 0.105
_LIGHTNESS = {Scheme.Dark: (0.34, 0.88), Scheme.Light: (0.93, 0.38)}
"""OKLab lightness of the least and the most: what is more stands out more from the paper."""


@lru_cache(maxsize=4)
def ramp(scheme: Scheme) -> tuple[QColor, ...]:
    """STEPS colours from the least to the most, even in OKLab's lightness."""
    least, most = _LIGHTNESS[Scheme.Light if scheme == Scheme.Light else Scheme.Dark]
    return tuple(_oklab(least + (most - least) * n / (STEPS - 1)) for n in range(STEPS))


def shade(share: float, scheme: Scheme) -> QColor:
    """The colour of a share between 0 and 1."""
    return ramp(scheme)[round(min(1.0, max(0.0, share)) * (STEPS - 1))]


def _oklab(lightness: float) -> QColor:
    """A colour of the ramp's hue (Ottosson, "A perceptual color space for image processing", 2020)."""
    # Little chroma fits near black and white.
    chroma = _CHROMA * min(1.0, 4 * (1 - lightness), 3 * lightness)
    a, b = chroma * math.cos(_HUE), chroma * math.sin(_HUE)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    parts = [min(1.0, max(0.0, part)) for part in linear]
    encoded = [12.92 * p if p <= 0.0031308 else 1.055 * p ** (1 / 2.4) - 0.055 for p in parts]
    return QColor.fromRgbF(*encoded)


class RampKey(QWidget):
    """The ramp between the numbers of its ends."""

    WIDE = 72.0

    def __init__(self) -> None:
        super().__init__()
        self._scheme = Scheme.Dark
        self._ends = ("", "")
        self.hide()

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        self._scheme = scheme
        self.update()

    def show_ends(self, least: str, most: str) -> None:
        """Name both ends; without names the key is hidden."""
        if (least, most) != self._ends:
            self._ends = (least, most)
            self.setAccessibleName(f"Colours from {least} to {most}" if least else "")
            self.updateGeometry()
            self.update()
        self.setVisible(bool(least))

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(small(self.font()))
        words = sum(metrics.horizontalAdvance(end) for end in self._ends)
        return QSize(round(words + self.WIDE) + 14, round(metrics.height()))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        font = small(self.font())
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        painter.setPen(ink(self._scheme, self.devicePixelRatioF()).muted)
        left = metrics.horizontalAdvance(self._ends[0]) + 6
        painter.drawText(
            self.rect(), Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, self._ends[0]
        )
        painter.drawText(
            self.rect(), Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, self._ends[1]
        )
        for step, colour in enumerate(ramp(self._scheme)):
            at = QRectF(left + step * self.WIDE / STEPS, self.height() / 2 - 4, self.WIDE / STEPS + 0.5, 8)
            painter.fillRect(at, colour)
        painter.end()
