"""The colour of every kind of byte, the same in every chart, report and legend; light and dark."""

from collections.abc import Mapping

KIND_COLOURS: Mapping[str, tuple[str, str]] = {
    "codes": ("#56B4E9", "#2A8CC7"),
    "parameters": ("#CC79A7", "#CC79A7"),
    "exact": ("#E69F00", "#E69F00"),
    "sinks": ("#D55E00", "#D55E00"),
    "side": ("#009E73", "#009E73"),
    "foreign": ("#9AA3AF", "#5B6470"),
    "reference": ("#8A93A0", "#8A93A0"),
}
"""Kind of byte -> (dark, light). Distinguishable with the common kinds of colour blindness."""

SURFACES: Mapping[str, tuple[str, str]] = {
    "window": ("#14161A", "#F6F7F9"),
    "panel": ("#1B1E24", "#FFFFFF"),
    "raised": ("#22262E", "#F0F2F5"),
    "line": ("#2E333D", "#DDE1E7"),
    "text": ("#E8EAED", "#1A1D21"),
    "muted": ("#9AA3AF", "#5B6470"),
    "accent": ("#56B4E9", "#0072B2"),
}
"""Name of a surface, line or text colour -> (dark, light)."""


def colours(*, light: bool) -> dict[str, str]:
    """Every name -> its colour in one scheme."""
    return {name: pair[light] for name, pair in (*KIND_COLOURS.items(), *SURFACES.items())}


def standing_alone(svg: str, *, light: bool) -> str:
    """A chart's drawing with its own colours in it, for a file or for paper."""
    start = svg.index(">") + 1
    return f"{svg[:start]}<style>{_sheet(light=light)}</style>{svg[start:]}"


def _sheet(*, light: bool) -> str:
    """CSS that gives the classes of a chart their colours."""
    c = colours(light=light)
    fills = [f".k-{kind}{{fill:{c[kind]}}}" for kind in KIND_COLOURS]
    lines = [
        f".l-{name}{{stroke:{c[name]};fill:none}}"
        for name in ("reference", "text", "line", "accent", "codes", "sinks")
    ]
    words = [f".t-text{{fill:{c['text']}}}", f".t-muted{{fill:{c['muted']}}}"]
    return "".join([*fills, *lines, *words])
