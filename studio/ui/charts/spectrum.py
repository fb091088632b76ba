"""One head's spectrum: how the keys' energy falls over the directions of its basis, and where it is cut."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QTransform

from studio.ui.charts.ink import small
from studio.ui.charts.plot import PixelItem, QuietPlot
from studio.ui.charts.ramp import shade
from studio.ui.charts.scale import binary_ticks
from studio.ui.theme import Scheme
from veloxquant_mlx.telemetry import HeadBasis

FLOOR = 1e-6
"""The least share of energy that is drawn."""
MOST_BITS = 8


def head_facts(basis: HeadBasis, drift: float | None) -> list[str]:
    """What a head keeps, with how many bits, and how far newer keys leave its basis."""
    kept = sum(basis.spectrum[: basis.rank])
    told = [f"rank {basis.rank} of {len(basis.spectrum)} keeps {kept:.1%} of the fitted keys' energy"]
    if basis.bits:
        low, high = min(basis.bits), max(basis.bits)
        mean = sum(basis.bits) / len(basis.bits)
        spread = f"{low}" if low == high else f"{low} to {high}, {mean:.1f} on average"
        told.append(f"bits per channel: {spread}")
    if drift is None:
        told.append("drift not known yet: nothing was flushed since the fit")
    else:
        told.append(f"drift {drift:.1%} of the newest flushed keys' energy outside the basis, measured")
    return told


class Bars(PixelItem):
    """Paints shares of energy on a logarithmic scale, kept directions in the colour of their bits."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.basis: HeadBasis | None = None

    def heights(self) -> np.ndarray:
        """log10 of the shares, at least that of FLOOR."""
        spectrum = () if self.basis is None else self.basis.spectrum
        return np.log10(np.maximum(np.array(spectrum, np.float64), FLOOR))

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        basis, ink = self.basis, self._plot.ink
        if basis is None or not basis.spectrum:
            return
        heights = self.heights()
        painter.setPen(ink.grid)
        for power in range(math.ceil(_low(heights)), 1):
            y = round(to_pixels.map(QPointF(0, power)).y()) - 0.5
            painter.drawLine(QLineF(frame.left(), y, frame.right(), y))
        x = np.round(np.arange(len(heights) + 1) * to_pixels.m11() + to_pixels.dx())
        tops = np.round(heights * to_pixels.m22() + to_pixels.dy())
        gap = 1.0 if x[1] - x[0] >= 4 else 0.0
        rest = QColor(ink.muted)
        rest.setAlpha(80)
        font = small(self._plot.font())
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        for channel, top in enumerate(tops.tolist()):
            kept = channel < len(basis.bits) and basis.bits[channel]
            colour = shade(basis.bits[channel] / MOST_BITS, self._plot.scheme) if kept else rest
            wide = x[channel + 1] - x[channel] - gap
            painter.fillRect(QRectF(x[channel], top, wide, frame.bottom() - top), colour)
        painter.setPen(ink.text)
        free = frame.left() - 10.0
        for first, end in runs(basis.bits):
            words = f"{basis.bits[first]}"
            wide = metrics.horizontalAdvance(words)
            left = max(x[0], (x[first] + x[end] - wide) / 2)
            if left >= free + 3:
                above = tops[first : max(first + 1, end)].min() - 3
                painter.drawText(QPointF(left, above), words)
                free = left + wide
        cut = x[min(basis.rank, len(basis.spectrum))] - 0.5
        pen = QPen(ink.text, 1.25)
        pen.setDashPattern([3, 2])
        painter.setPen(pen)
        painter.drawLine(QLineF(cut, frame.top(), cut, frame.bottom()))
        name = f"cut at rank {basis.rank}"
        wide = metrics.horizontalAdvance(name)
        left = cut + 5 if cut + 5 + wide <= frame.right() else cut - 5 - wide
        painter.setPen(ink.text)
        painter.drawText(QPointF(left, frame.top() + metrics.ascent()), name)
        axis = "share of the keys' energy per direction, its bits above"
        wide = metrics.horizontalAdvance(axis)
        right = frame.right() if frame.right() - wide > cut + 5 else cut - 5
        # The first bars are high.
        if right - wide > frame.left() + 0.1 * frame.width():
            base = frame.top() + 2.3 * metrics.ascent()
            back = QRectF(right - wide, base - metrics.ascent(), wide, metrics.height())
            painter.fillRect(back, ink.halo)
            painter.setPen(ink.muted)
            painter.drawText(QPointF(back.left(), base), axis)


class Spectrum(QuietPlot):
    """The chosen head's spectrum; empty until one is chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Spectrum of the chosen head")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._bars = Bars(self)
        self.put(self._bars)
        self.resized.connect(self._arrange)

    @property
    def basis(self) -> HeadBasis | None:
        """The basis that is drawn."""
        return self._bars.basis

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        self.scheme = scheme
        self.dress()
        self._arrange()

    def show_head(self, basis: HeadBasis | None) -> None:
        """Draw a head's spectrum, or nothing."""
        if basis is not self._bars.basis:
            self._bars.basis = basis
            self._bars.update()
        self.setVisible(basis is not None)
        self._arrange()

    def _arrange(self) -> None:
        basis = self._bars.basis
        if basis is None or not basis.spectrum:
            return
        low, count = _low(self._bars.heights()), len(basis.spectrum)
        x = [(at + 0.5, str(at)) for at in binary_ticks(count - 1, 4)]
        metrics = QFontMetricsF(small(self.font()))
        most = max(1, int(self.inside()[1] / (1.6 * metrics.height())))
        powers = list(range(0, math.floor(low) - 1, -max(1, math.ceil(-low / most))))
        self.set_ticks(x, [(p, f"{10.0 ** (p + 2):g} %") for p in powers if p >= low])
        # Room above for the bits of the first bar.
        self.show_range((0.0, float(count)), (low, max(0.0, -0.16 * low)))


def _low(heights: np.ndarray) -> float:
    """The axis' lower end, a little below the least share."""
    return max(math.log10(FLOOR), math.floor(float(heights.min()) - 0.05))


def runs(bits: Sequence[int]) -> list[tuple[int, int]]:
    """First channel and end of every run of equal bits."""
    starts = [n for n, value in enumerate(bits) if n == 0 or bits[n - 1] != value]
    return list(pairwise([*starts, len(bits)]))
