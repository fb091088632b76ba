"""The front of bytes against divergence, as an SVG that reads well on light and dark pages."""

import math
from typing import Any
from xml.sax.saxutils import escape

from veloxquant_mlx.compared import front

WIDTH, HEIGHT = 860, 480
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 56, 52
X_TICKS = (5, 10, 20, 50, 100)
Y_TICKS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)
MUTED = "#7b818a"
COLOURS = {"ours": "#1f77d0", "mlx_lm": "#c2730a", "PyPI": "#8a8f98"}
WORDS = {"ours": "VeloxQuant Studio", "mlx_lm": "mlx_lm", "PyPI": "veloxquant-mlx of PyPI"}
SHORT = {
    "skvq:Near-lossless,skvq_bits_key=6,skvq_bits_value=6": "SKVQ 6 bits",
    "svdq_skvq": "SVDq+SKVQ",
    "svdq": "SVDq",
    "skvq": "SKVQ",
    "affine,affine_bits=": "affine ",
}


def picture(result: dict[str, Any]) -> str:
    """An SVG of the rows of ``result.json``; points without a finite figure are left out."""
    rows = [row for row in result["rows"] if row.get("kl") and row.get("resident")]
    parts = [*_axes(result), *_front([row for row in rows if row["whose"] == "ours"])]
    taken: list[tuple[float, float, float]] = []
    for row in sorted(rows, key=lambda row: row["whose"] != "ours"):
        x, y = _x(row["resident"] / 1e6), _y(row["kl"])
        colour = COLOURS[row["whose"]]
        if row["whose"] == "ours":
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
        else:
            parts.append(f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" fill="none" '
                         f'stroke="{colour}" stroke-width="2"/>')  # fmt: skip
        said = _short(row["name"])
        left = x > WIDTH - 190
        wide = 6.6 * len(said) + 9
        start = x - wide if left else x
        low = next(
            y + 4 + shift
            for shift in (0, -14, 14, -28, 28, -42, 42)
            if not any(start < end and begin < start + wide and abs(y + 4 + shift - at) < 13
                       for begin, end, at in taken)
        )  # fmt: skip
        taken.append((start, start + wide, low))
        anchor, shift = ("end", -9) if left else ("start", 9)
        parts.append(f'<text x="{x + shift:.1f}" y="{low:.1f}" text-anchor="{anchor}" '
                     f'fill="{colour}">{escape(said)}</text>')  # fmt: skip
    for place, (whose, words) in enumerate(WORDS.items()):
        parts.append(f'<text x="{LEFT + 190 * place}" y="20" font-weight="600" '
                     f'fill="{COLOURS[whose]}">{"●" if whose == "ours" else "□"} {words}</text>')  # fmt: skip
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" role="img" aria-label="Resident bytes against divergence" font-size="12" '
            'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif">')  # fmt: skip
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _x(megabytes: float) -> float:
    low, high = math.log(X_TICKS[0]), math.log(130)
    return LEFT + (math.log(megabytes) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _y(kl: float) -> float:
    low, high = math.log(0.00008), math.log(4)
    return (
        HEIGHT - BOTTOM - (math.log(min(max(kl, 0.0001), 4)) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
    )


def _short(name: str) -> str:
    for long, short in SHORT.items():
        name = name.replace(long, short) if name.startswith(long) else name
    return name.replace(":", " ")


def _text(x: float, y: float, said: str, anchor: str = "start", size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="{MUTED}">{escape(said)}</text>'


def _axes(result: dict[str, Any]) -> list[str]:
    low, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in X_TICKS:
        x = _x(tick)
        parts.append(f'<path d="M{x:.1f} {TOP}V{low}" stroke="{MUTED}" opacity="0.25"/>')
        parts.append(_text(x, low + 17, str(tick), "middle"))
    for kl in Y_TICKS:
        y = _y(kl)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{MUTED}" opacity="0.25"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{kl:g}", "end"))
    said = f"{result['model']}, {result['text']}; measured {result['date']} on {result['machine']}"
    return [
        *parts,
        _text(LEFT, TOP - 14, "KL from the uncompressed cache, nats per token"),
        _text(right, low + 33, "MB that stay in memory", "end"),
        _text(LEFT, HEIGHT - 8, said, size=10),
    ]


def _front(ours: list[dict[str, Any]]) -> list[str]:
    """A line through those of ours that no other of ours beats in both figures."""
    best = front(ours, lambda row: (row["resident"], row["kl"]))
    steps = " ".join(f"{_x(row['resident'] / 1e6):.1f},{_y(row['kl']):.1f}" for row in best)
    return [f'<path d="M{steps}" fill="none" stroke="{COLOURS["ours"]}" stroke-width="1.5" opacity="0.6"/>']
