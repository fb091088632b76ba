"""One stylesheet, generated from the tokens. Sizes are pixels at 100 % text and grow with the text."""

import re
from collections.abc import Mapping

_SHEET = """
* { font-size: 13px; }
QWidget { color: $text; }
QMainWindow, QDialog, QWidget[surface="window"] { background: $window; }
QWidget[surface="panel"] { background: $panel; }
QWidget[surface="raised"] { background: $raised; border-radius: 6px; }
QWidget[surface="bubble"] { background: $bubble; border-radius: 10px; }
QWidget[surface="popup"] { background: $panel; border: 1px solid $line; border-radius: 10px; }
QWidget[surface="aside"] { border-left: 2px solid $line; }
QWidget[surface="top"] { background: $panel; border-bottom: 1px solid $line; }
QWidget[surface="bottom"] { background: $panel; border-top: 1px solid $line; }
QWidget[surface="footer"] { background: $panel; border-top: 1px solid $line; }
QWidget[surface="notice"] { background: $bad_soft; border: 1px solid $bad; border-radius: 6px; }
QWidget[surface="note"] { background: $accent_soft; border: 1px solid $accent; border-radius: 6px; }
QWidget[surface="prompt"] { background: $panel; border: 1px solid $line; border-radius: 10px; }
QWidget[surface="prompt"][active="true"] { border: 1px solid $accent; }

QLabel { background: transparent; }
QLabel[text-role="title"] { font-size: 17px; font-weight: 600; }
QLabel[text-role="figure"] { font-size: 17px; font-weight: 600; }
QLabel[text-role="strong"] { font-weight: 600; }
QLabel[text-role="heading"] { font-size: 12px; font-weight: 600; color: $muted; }
QLabel[text-role="muted"] { font-size: 12px; color: $muted; }
QLabel[text-role="small"] { font-size: 11px; color: $muted; }
QLabel[text-role="warn"] { font-size: 11px; color: $warn; }
QLabel[text-role="bad"] { font-size: 11px; color: $bad; }
QLabel[text-role="lead"] { color: $muted; }
QLabel:disabled { color: $faint; }

QPushButton, QToolButton {
    background: $raised; border: 1px solid $line; border-radius: 6px; padding: 4px 10px; min-height: 18px;
}
QPushButton:hover, QToolButton:hover { border-color: $faint; }
QPushButton:pressed, QToolButton:pressed { background: $line; }
QPushButton:focus, QToolButton:focus { border: 2px solid $accent; padding: 3px 9px; }
QPushButton:disabled, QToolButton:disabled { color: $faint; background: transparent; }
QPushButton[role="primary"] {
    background: $accent; color: $on_accent; border-color: $accent; font-weight: 600;
}
QPushButton[role="primary"]:focus { border: 2px solid $text; }
QPushButton[role="primary"]:disabled { background: $raised; color: $faint; border-color: $line; }
QPushButton[role="quiet"], QToolButton[role="quiet"] {
    background: transparent; border-color: transparent; color: $muted;
}
QPushButton[role="quiet"]:hover, QToolButton[role="quiet"]:hover { background: $raised; color: $text; }
QPushButton[role="quiet"]:focus, QToolButton[role="quiet"]:focus { border: 2px solid $accent; }
QPushButton[role="quiet"]:disabled { color: $faint; }
QPushButton[role="link"] {
    background: transparent; border: 1px solid transparent; color: $muted; font-size: 11px; padding: 1px 4px;
    text-decoration: underline; min-height: 14px;
}
QPushButton[role="link"]:hover { color: $text; }
QPushButton[role="link"]:focus { border: 1px solid $accent; border-radius: 4px; }
QPushButton[role="arrow"] {
    background: transparent; border: 1px solid transparent; color: $muted; padding: 0 6px; min-height: 16px;
}
QPushButton[role="arrow"]:hover { color: $text; }
QPushButton[role="arrow"]:focus { border: 1px solid $accent; border-radius: 4px; }
QPushButton[role="arrow"]:disabled { color: $faint; }
QPushButton[role="chip"] { color: $muted; }
QPushButton[role="chip"]:hover { color: $text; }
QPushButton[role="row"] {
    text-align: left; color: $muted; background: transparent; border-color: transparent; padding: 4px 7px;
}
QPushButton[role="row"]:hover { background: $raised; color: $text; }
QPushButton[role="row"]:focus { border: 2px solid $accent; padding: 3px 6px; }
QPushButton[role="segment"] {
    padding: 1px 4px; border-radius: 4px; border-color: transparent; background: transparent; color: $muted;
    min-height: 18px;
}
QPushButton[role="segment"]:hover { color: $text; }
QPushButton[role="segment"]:checked {
    background: $panel; color: $text; font-weight: 600; border-color: $accent;
}
QPushButton[role="segment"]:focus { border: 2px solid $accent; padding: 0 3px; }
QPushButton[role="segment"]:disabled { color: $faint; }
QPushButton[role="segment"]:checked:disabled { border-color: $line; }
QToolButton[role="icon"] {
    background: transparent; border: 1px solid transparent; padding: 0;
    min-height: 26px; max-height: 26px; min-width: 26px; max-width: 26px;
}
QToolButton[role="icon"]:hover { background: $raised; }
QToolButton[role="icon"]:pressed { background: $line; }
QToolButton[role="icon"]:focus { border: 1px solid $accent; padding: 0; }
QToolButton::menu-indicator { image: none; }
QToolButton[role="more"] {
    background: transparent; border: 1px solid transparent; color: $muted; padding: 0 5px; min-height: 14px;
    border-radius: 4px;
}
QToolButton[role="more"]:hover { background: $raised; color: $text; }
QToolButton[role="more"]:focus { border: 1px solid $accent; padding: 0 5px; }
QToolButton[role="more"]:disabled { color: $faint; }

QComboBox {
    background: $raised; border: 1px solid $line; border-radius: 6px; padding: 4px 0 4px 8px;
    min-height: 18px; combobox-popup: 0;
}
QComboBox:hover { border-color: $faint; }
QComboBox:focus { border: 2px solid $accent; padding: 3px 0 3px 7px; }
QComboBox:disabled { color: $faint; }
QComboBox::drop-down { border: none; width: 16px; }
QComboBox::down-arrow { image: url("$chevron"); width: 10px; height: 10px; }
QComboBox QAbstractItemView {
    background: $panel; border: 1px solid $line; border-radius: 6px; padding: 4px; outline: 0;
    selection-background-color: $accent_soft; selection-color: $text;
}
QComboBox QAbstractItemView::item { min-height: 24px; padding: 0 6px; border-radius: 4px; }

QTableView {
    background: $panel; border: 1px solid $line; border-radius: 6px; gridline-color: $line;
    selection-background-color: $accent_soft; selection-color: $text;
}
QTableView::item { padding: 0 6px; }
QHeaderView { background: $panel; }
QHeaderView::section {
    background: $panel; color: $muted; padding: 4px 16px 4px 8px;
    border: none; border-right: 1px solid $line; border-bottom: 1px solid $line;
}

QSpinBox, QDoubleSpinBox, QLineEdit {
    background: transparent; border: 1px solid transparent; border-radius: 4px;
    padding: 0 3px; min-height: 18px;
    selection-background-color: $accent; selection-color: $on_accent;
}
QSpinBox:hover, QDoubleSpinBox:hover { border-color: $line; background: $raised; }
QLineEdit, QDoubleSpinBox[framed="true"] { border-color: $line; background: $raised; }
QLineEdit[role="search"] { border-radius: 6px; padding: 3px 6px; }
QLineEdit QToolButton { background: transparent; border: none; padding: 0; min-height: 0; }
QSpinBox QLineEdit, QDoubleSpinBox QLineEdit { border: none; background: transparent; }
QSpinBox:focus, QDoubleSpinBox:focus, QLineEdit:focus { border: 1px solid $accent; background: $raised; }
QSpinBox:disabled, QDoubleSpinBox:disabled, QLineEdit:disabled { color: $faint; }
QSpinBox[figure="true"], QDoubleSpinBox[figure="true"] { font-weight: 600; }

QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }

QSlider { min-height: 14px; max-height: 14px; background: transparent; }
QSlider::groove:horizontal { height: 4px; border-radius: 2px; background: $raised; }
QSlider::sub-page:horizontal { height: 4px; border-radius: 2px; background: $accent; }
QSlider::handle:horizontal {
    width: 10px; height: 10px; margin: -5px 0; border-radius: $handle_radius;
    background: $panel; border: 2px solid $accent;
}
QSlider::handle:horizontal:hover { background: $accent_soft; }
QSlider::handle:horizontal:focus { background: $accent; border: 2px solid $text; }
QSlider::sub-page:horizontal:disabled { background: $line; }
QSlider::handle:horizontal:disabled { border-color: $faint; }

QListView { background: transparent; border: none; outline: 0; }
QScrollArea { border: none; background: transparent; }
QTextEdit, QPlainTextEdit {
    background: transparent; border: none;
    selection-background-color: $accent; selection-color: $on_accent;
}
QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: $line; border-radius: 3px; margin: 2px; min-height: 24px; min-width: 24px; }
QScrollBar::handle:hover { background: $faint; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QSplitter::handle { background: $line; }
QSplitter::handle:hover { background: $accent; }

QProgressBar { background: $line; border: none; border-radius: 2px; max-height: 4px; min-height: 4px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }

QMenuBar { background: $panel; }
QMenu { background: $panel; border: 1px solid $line; padding: 4px; }
QMenu::item { padding: 5px 24px 5px 22px; border-radius: 4px; }
QMenu::indicator { width: 12px; height: 12px; left: 5px; }
QMenu::item:selected { background: $accent_soft; }
QMenu::item:disabled { color: $faint; }
QMenu::separator { height: 1px; background: $line; margin: 4px 8px; }
QToolTip { background: $raised; color: $text; border: 1px solid $line; padding: 5px 7px; font-size: 12px; }
QTabBar::tab {
    background: transparent; color: $muted; padding: 6px 8px; border-bottom: 2px solid transparent;
}
QTabBar::tab:selected { color: $text; font-weight: 600; border-bottom-color: $accent; }
"""


def sheet(tokens: Mapping[str, str], scale: float, chevron: str = "") -> str:
    """The stylesheet for a set of tokens at a text scale. ``chevron`` is the path of a small icon."""

    def pixels(match: re.Match[str]) -> str:
        value = int(match.group(1))
        # Hairlines and focus rings stay as they are: they do not carry text.
        return f"{value if abs(value) <= 2 else round(value * scale)}px"

    text = re.sub(r"(-?\d+)px", pixels, _SHEET)
    # Qt draws a square where a radius is more than half of the side: 10 px and two borders of 2.
    quoted = chevron.replace("\\", "\\\\").replace('"', '\\"')
    words = {"chevron": quoted, "handle_radius": f"{(round(10 * scale) + 4) // 2}px", **tokens}
    return re.sub(r"\$(\w+)", lambda match: words[match.group(1)], text)
