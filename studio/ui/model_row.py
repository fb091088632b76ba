"""One model in the list: its name, what it is in one line, and its state in words."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from studio.core.fit import FITS, TIGHT, Fit
from studio.ui import words
from studio.ui.theme import tokens

_BAR = 4
"""Pixels of the bar of a download."""
ROW = Qt.ItemDataRole.UserRole
"""Role of the RowText of an item."""


@dataclass(frozen=True, slots=True)
class RowText:
    """What a row says."""

    name: str
    detail: str
    loaded: bool = False
    problem: bool = False
    fit: Fit | None = None
    """Whether it fits this machine; None where that is unknown."""
    plan: str = ""
    """What the cache setting does to its slots, shown while the row is selected."""
    share: float | None = None
    """How much of it is here already, for one that is being fetched."""

    def lines(self, selected: bool) -> list[tuple[str, str]]:
        """What stands below the name, each with the colour's name of its words."""
        said = [(self.detail, "warn" if self.problem else "good" if self.loaded else "muted")]
        if self.fit is not None:
            words = self.fit.sentence if selected else self.fit.words
            said.append((words, {FITS: "good", TIGHT: "warn"}.get(self.fit.state, "bad")))
        if selected and self.plan:
            said.append((self.plan, "muted"))
        return said

    @property
    def spoken(self) -> str:
        """All of it, for a screen reader and the tooltip."""
        return ". ".join(text.rstrip(".") for text in (self.name, *(line for line, _ in self.lines(True))))


def row_text(info: Any, *, loaded: bool, fit: Fit | None = None, plan: str = "") -> RowText:
    """The words of a ModelInfo; the problem sentence takes the place of the detail."""
    if info.problem:
        return RowText(info.name, info.problem, problem=True)
    slots = "no KV slots" if info.kv_slots == 0 else words.count(info.kv_slots, "KV slot")
    if info.slots and info.kv_slots and info.kv_slots != info.slots:
        slots = f"{info.kv_slots:,} of {info.slots:,} slots hold KV"
    parts = [
        words.bit_width(info.weight_bits),
        words.size(info.size_bytes),
        f"context {info.context:,}" if info.context else "",
        info.architecture,
        slots,
        "GGUF, is converted first" if info.format == "gguf" else "",
    ]
    detail = ", ".join(part for part in parts if part)
    return RowText(info.name, f"Loaded: {detail}" if loaded else detail, loaded, fit=fit, plan=plan)


class RowDelegate(QStyledItemDelegate):
    """Paints RowText in two to four lines with an unmistakable selection and focus."""

    elide = Qt.TextElideMode.ElideMiddle
    """Where a name that is too long is shortened."""

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Height for the wrapped detail at the width of the list."""
        row: RowText = index.data(ROW)
        view: Any = option.widget
        width = view.viewport().width() if view is not None else 200
        metrics = QFontMetrics(_small(option.font))
        selected = view is not None and view.currentIndex() == index
        below = sum(_wrapped(metrics, text, width - 16).height() for text, _ in row.lines(selected))
        bar = _BAR + 4 if row.share is not None else 0
        return QSize(width, 6 + QFontMetrics(option.font).height() + 1 + below + bar + 7)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Background, focus ring, name, detail."""
        row: RowText = index.data(ROW)
        view: Any = option.widget
        t = tokens()
        state: Any = option.state
        box: QRect = option.rect.adjusted(0, 0, 0, -2)
        selected = bool(state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if selected or state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(t.accent_soft if selected else t.raised))
            painter.drawRoundedRect(box, 6, 6)
        if selected and view.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(t.accent), 2))
            painter.drawRoundedRect(box.adjusted(1, 1, -1, -1), 5, 5)
        inner = box.adjusted(8, 6, -8, 0)
        strong, small = option.font, _small(option.font)
        painter.setFont(strong)
        metrics = QFontMetrics(strong)
        painter.setPen(QColor(t.text))
        name = metrics.elidedText(row.name, self.elide, inner.width())
        painter.drawText(QRect(inner.left(), inner.top(), inner.width(), metrics.height()), 0, name)
        painter.setFont(small)
        top = inner.top() + metrics.height() + 1
        for text, colour in row.lines(view is not None and view.currentIndex() == index):
            height = _wrapped(QFontMetrics(small), text, inner.width()).height()
            painter.setPen(QColor(t.as_dict()[colour]))
            below = QRect(inner.left(), top, inner.width(), height)
            painter.drawText(below, Qt.TextFlag.TextWordWrap, text)
            top += height
        if row.share is not None:
            self._paint_share(painter, QRect(inner.left(), top + 4, inner.width(), _BAR), row.share)
        painter.restore()

    def _paint_share(self, painter: QPainter, box: QRect, share: float) -> None:
        t = tokens()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(t.line))
        painter.drawRoundedRect(box, 2, 2)
        painter.setBrush(QColor(t.accent))
        painter.drawRoundedRect(QRect(box.left(), box.top(), round(box.width() * share), box.height()), 2, 2)


def _wrapped(metrics: QFontMetrics, text: str, width: int) -> QRect:
    return metrics.boundingRect(QRect(0, 0, max(40, width), 4000), Qt.TextFlag.TextWordWrap, text)


def _small(font: QFont) -> QFont:
    small = QFont(font)
    small.setPixelSize(max(9, round(font.pixelSize() * 11 / 13)) if font.pixelSize() > 0 else 11)
    return small
