"""The pieces a reply is shown in: running text, code with a copy button, thinking that is folded."""

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from studio.ui import parts, words
from studio.ui.segments import Segment, Splitter
from studio.ui.textview import CodeView, ProseView, TextView
from studio.ui.token_fidelity import TintedToken


class CodeBlock(QFrame):
    """Code on its own surface, its language above it."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.setProperty("surface", "raised")
        self.view = CodeView(words.clean(language.partition(" ")[0]))
        self._copy = parts.button("Copy", "link", "Copy this code", "Copy code")
        self._copy.clicked.connect(self._copied)
        head = QHBoxLayout()
        parts.margins(head, 0, 0, 0, 0, 4)
        label = parts.Elided(words.clean(language) or "code")
        label.setProperty("text-role", "small")
        head.addWidget(label, 1)
        head.addWidget(self._copy)
        column = QVBoxLayout(self)
        parts.margins(column, 12, 5, 8, 9, 3)
        column.addLayout(head)
        column.addWidget(self.view)

    def show_segment(self, segment: Segment) -> None:
        """The code so far."""
        self.view.show_text(segment.text)

    def _copied(self) -> None:
        QGuiApplication.clipboard().setText(words.clean(self.view.code()))
        self._copy.setText("Copied")


class Thinking(QWidget):
    """What the model said to itself: one line until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self._segment = Segment("thinking")
        self.button = parts.button("", "link")
        self.button.setCheckable(True)
        self.button.toggled.connect(self._toggled)
        self._box = parts.surface("aside")
        self.view = ProseView("The model's thinking")
        inner = QVBoxLayout(self._box)
        parts.margins(inner, 12, 0, 0, 0, 0)
        inner.addWidget(self.view)
        self._box.hide()
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 0)
        row.addWidget(self.button)
        row.addStretch(1)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 4)
        column.addLayout(row)
        column.addWidget(self._box)

    def show_segment(self, segment: Segment) -> None:
        """The thinking so far; laid out only while it is open."""
        self._segment = segment
        length = words.count(len(segment.text.split()), "word")
        doing = "Thought in" if segment.closed else "Thinking,"
        sign = "▾" if self.button.isChecked() else "▸"
        said = f"{sign} {doing} {length}"
        if self.button.text() != said:
            self.button.setText(said)
            self.button.setAccessibleName(
                f"{doing} {length}, {'hide' if self.button.isChecked() else 'show'}"
            )
        if self.button.isChecked():
            self.view.show_text(segment.text.strip(), segment.closed)

    def _toggled(self, on: bool) -> None:
        self._box.setVisible(on)
        self.show_segment(self._segment)


class Prose(ProseView):
    """Running text as a piece of a reply."""

    def __init__(self) -> None:
        super().__init__("Model")

    def show_segment(self, segment: Segment) -> None:
        """The words so far."""
        self.show_text(segment.text, segment.closed)


class Body(QWidget):
    """A reply as it grows: only its last piece is laid out again. ``link_clicked`` carries an address."""

    link_clicked = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._splitter = Splitter()
        self._closed = False
        self._text: list[str] = []
        self.pieces: list[Prose | CodeBlock | Thinking] = []
        self._kinds: list[tuple[str, str]] = []
        self._spare: Prose | None = None
        self._column = QVBoxLayout(self)
        parts.margins(self._column, 0, 0, 0, 0, 8)
        self.hide()

    def text(self) -> str:
        """What the model wrote so far."""
        return "".join(self._text)

    def plain(self) -> str:
        """What can be read, thinking included only where it is open."""
        return "\n".join(view.toPlainText() for view in self.views())

    def views(self) -> list[TextView]:
        """The texts of the pieces."""
        return [piece if isinstance(piece, Prose) else piece.view for piece in self.pieces]

    def set_tokens(self, tokens: Sequence[TintedToken]) -> None:
        """Colour the tokens of the reply's text, in whichever piece they are shown; none take it away."""
        text, at = self.text(), 0
        for segment, view in zip(self._splitter.segments, self.views(), strict=True):
            head = next(filter(None, map(str.strip, segment.text.split("\n"))), "")
            begin = text.find(head, at)
            if begin < 0:
                continue
            at = min(len(text), begin + len(segment.text))
            view.tints.show(
                text[begin:at],
                [
                    replace(token, begin=max(0, token.begin - begin), end=token.end - begin)
                    for token in tokens
                    if begin < token.end and token.begin < at
                ],
            )

    def prepare(self) -> None:
        """Make what the first words will need: dressing it takes longest, and nothing is computed yet."""
        if not self.pieces and self._spare is None:
            self._spare = Prose()
            self._spare.setParent(self)
            self._spare.hide()
            self._spare.ensurePolished()

    def append(self, text: str) -> None:
        """More text at the end, also of a reply that was closed."""
        if text:
            if self._closed:
                self._closed = False
                self._splitter = Splitter()
                self._splitter.feed(self.text())
            self._text.append(text)
            self._show(self._splitter.feed(text))

    def close(self) -> bool:
        """Nothing more comes."""
        self._closed = True
        self._show(self._splitter.finish())
        if self._spare is not None:
            self._spare.deleteLater()
            self._spare = None
        return True

    def set_text(self, text: str) -> None:
        """Show a whole reply; what stands already as its beginning stays."""
        if not text.startswith(self.text()):
            self._drop(0)
            self._text, self._splitter, self._closed = [], Splitter(), False
        self.append(text[len(self.text()) :])
        self.close()

    def _show(self, first: int) -> None:
        """Bring the pieces from ``first`` on in line with the segments."""
        segments = self._splitter.segments
        for number in range(first, len(segments)):
            segment = segments[number]
            kind = (segment.kind, segment.language)
            if number < len(self.pieces) and self._kinds[number] != kind:
                self._drop(number)
            if number == len(self.pieces):
                self._add(kind)
            self.pieces[number].show_segment(segment)
        if len(self.pieces) > len(segments):
            self._drop(len(segments))
        self.setVisible(bool(self.pieces))

    def _add(self, kind: tuple[str, str]) -> None:
        made: Prose | CodeBlock | Thinking
        if kind[0] == "code":
            made = CodeBlock(kind[1])
        elif kind[0] == "thinking":
            made = Thinking()
        else:
            made, self._spare = self._spare or Prose(), None
        view = made if isinstance(made, Prose) else made.view
        view.link_clicked.connect(self.link_clicked)
        self.pieces.append(made)
        self._kinds.append(kind)
        self._column.addWidget(made)
        made.show()

    def _drop(self, first: int) -> None:
        for piece in self.pieces[first:]:
            self._column.removeWidget(piece)
            piece.hide()
            piece.deleteLater()
        del self.pieces[first:], self._kinds[first:]
