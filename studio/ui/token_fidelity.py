"""What is said and shown of one token beside the uncompressed cache, the same in the chat and in the view."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from studio.ui import words
from studio.ui.setting_words import setting_words

if TYPE_CHECKING:
    from studio.core.compared import ReplyComparison
    from veloxquant_mlx.compared import SlotFidelity, TokenFidelity

SAME, NEAR, FAR = range(3)
FIRST_CHOICES = 5
"""Ranks up to which a token was still among the uncompressed cache's first choices."""
LEVEL_WORDS = (
    "the uncompressed cache's choice too",
    f"its choice 2 to {FIRST_CHOICES}",
    "a later choice",
)


@dataclass(frozen=True, slots=True)
class TintedToken:
    """A token of a message's text."""

    begin: int
    end: int
    level: int
    """SAME, NEAR or FAR."""
    tip: str
    """Rich text."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What the view shows."""

    replies: tuple["ReplyComparison", ...] = ()
    """Of the shown conversation, in order."""
    slots: tuple["SlotFidelity", ...] = ()
    through: str = ""
    """The setting that the slots were compared for."""
    progress: str = ""
    """How far a comparison is."""
    why_not: str = ""
    """Why nothing is compared, without a full stop."""


def level_of(token: "TokenFidelity") -> int:
    """How far down the uncompressed cache has a token; where it was sampled, only what the cache changed."""
    if token.rank <= max(1, token.own_rank):
        return SAME
    return NEAR if token.rank <= FIRST_CHOICES else FAR


def quoted(piece: str) -> str:
    """A token's text so that its blanks are seen."""
    return "“" + words.clean(piece).replace("\n", "⏎") + "”"


def nats(value: float) -> str:
    """KL with its unit; below what is measured it says so."""
    if value < 1e-5:
        return "below 0.00001 nats"
    digits = 3 if value >= 0.01 else 5
    return f"{value:.{digits}f} nats"


def percent(share: float) -> str:
    """A probability or a share."""
    if share < 0.001:
        return "below 0.1%"
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}"


def choice(rank: int) -> str:
    """A rank in words."""
    return "first choice" if rank == 1 else f"choice {rank:,}"


def tip_of(token: "TokenFidelity", piece: str, top: str) -> str:
    """Everything measured of one token, as rich text."""
    lines = [
        f'<span style="font-weight:600">{escape(quoted(piece))}</span>',
        f"KL {nats(token.kl)}, measured",
        f"uncompressed: {choice(token.rank)}, {percent(token.likelihood)} likely",
        f"as written: {choice(token.own_rank)}, {percent(token.own_likelihood)} likely",
    ]
    if token.rank > 1:
        lines.append(f"uncompressed prefers {escape(quoted(top))}, {percent(token.top_likelihood)}")
    return "<br>".join(lines)


def tinted(parts: Sequence["ReplyComparison"]) -> list[TintedToken]:
    """The tokens of a message, from the parts it was written in."""
    made = []
    for part in parts:
        begin = part.offset
        for token, piece, top, end in zip(
            part.fidelity.tokens, part.pieces, part.tops, part.ends, strict=False
        ):
            if end > begin:
                made.append(TintedToken(begin, end, level_of(token), tip_of(token, piece, top)))
            begin = end
    return made


def summary(parts: Sequence["ReplyComparison"]) -> str:
    """A reply's comparison in two sentences, the setting it was written through first."""
    tokens = [token for part in parts for token in part.fidelity.tokens]
    if not tokens:
        return ""
    whole = sum(part.fidelity.length for part in parts)
    over = words.count(len(tokens), "token")
    over = over if whole == len(tokens) else f"the first {len(tokens):,} of {words.count(whole, 'token')}"
    mean = sum(token.kl for token in tokens) / len(tokens)
    same = sum(token.same_top1 for token in tokens) / len(tokens)
    through = ", then ".join(dict.fromkeys(setting_words(part.config) for part in parts))
    said = f"{through} against the uncompressed cache, measured over {over}: KL {nats(mean)} per token"
    differs = next((n for n, token in enumerate(tokens) if not token.same_top1), None)
    if differs is None:
        return f"{said}, the same first choice at every one."
    pieces = [piece for part in parts for piece in part.pieces]
    tops = [top for part in parts for top in part.tops]
    first = f"At token {differs + 1:,} it would first have said {quoted(tops[differs])}"
    return f"{said}, same first choice {percent(same)}. {first}, not {quoted(pieces[differs])}."
