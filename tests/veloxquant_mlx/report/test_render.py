"""A report as a page and as Markdown: its figures, its validity, and nothing that gets out of its place."""

import re
from typing import Any
from xml.etree.ElementTree import fromstring

import html5lib
import pytest
from markdown_it import MarkdownIt

from studio.core.session import Message
from tests.studio.synthetic import history
from tests.veloxquant_mlx.report.sample import FIDELITY, SEEN, hostile, sample
from veloxquant_mlx.report.compare import comparison
from veloxquant_mlx.report.content import NO_WORDS, NOT_COMPARED, WITH_WORDS, document
from veloxquant_mlx.report.document import Chart
from veloxquant_mlx.report.render import html, markdown, printed
from veloxquant_mlx.report.schema import validate_report


def parsed(page: str) -> Any:
    """The page as a tree; raises at the first thing that is not as the standard has it."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def text_of(page: str) -> str:
    return " ".join(" ".join(parsed(page).itertext()).split())


@pytest.mark.parametrize(
    "report",
    [
        sample(),
        sample(fidelity=FIDELITY, conversation=[Message("user", "Why?"), Message("assistant", "So.")]),
        sample(history={}, snapshot=None, speeds=None, reference=None, prediction=None, slot_history=None),
        hostile(),
    ],
    ids=["usual", "everything", "nothing yet", "hostile"],
)
def test_the_page_is_valid_and_stands_alone(report: dict[str, Any]) -> None:
    validate_report(report)
    for page in (html(document(report)), html(comparison(report, sample()))):
        tree = parsed(page)
        assert not tree.findall(".//script") and not tree.findall(".//link") and not tree.findall(".//img")
        for element in tree.iter():
            attributes = {str(name).lower() for name in element.attrib}
            assert not {name for name in attributes if name.startswith("on")}
            assert not attributes & {"src", "href", "xlink:href", "action", "data"}
        style = tree.find(".//style").text
        assert "url(" not in style and "@import" not in style
        assert "prefers-color-scheme: dark" in style


def test_the_figures_are_those_of_the_report() -> None:
    report = sample(fidelity=FIDELITY)
    said = text_of(html(document(report)))
    counted = report["totals"]["counted_bytes"]
    for kind, size in counted.items():
        assert f"{size:,}" in said, kind
    for words in (
        "180.0 tokens/s", "14.0 tokens/s", "28.0 tokens/s", "700.0 MB", "650.0 MB", "0.2500 nats per token",
        "87.5 %", "500 tokens in the cache", "1 keeps a 512-token window of its own", "SmolLM2-135M-Instruct",
    ):  # fmt: skip
        assert words in said, words
    ratio = report["ratio"]["times_smaller_than_16_bits_counted"]
    assert f"{ratio:,.1f} times" in said
    for told in report["method"]["parameters"].values():
        assert told["label"] in said and told["help"] in said
    assert NOT_COMPARED not in said


def test_what_was_not_measured_is_a_sentence() -> None:
    said = text_of(html(document(sample(reference=None))))
    assert NOT_COMPARED in said
    assert "The 16-bit cache was not run in this session" in said
    empty = text_of(html(document(sample(history={}, snapshot=None, speeds=None))))
    assert "Nothing has been read yet" in empty and "unknown" in empty


def test_the_conversation_is_there_only_when_asked_for() -> None:
    without = html(document(sample()))
    assert NO_WORDS in text_of(without)
    asked = sample(conversation=[Message("user", "Why is\n  the sky blue?")])
    page = html(document(asked))
    assert WITH_WORDS in text_of(page) and NO_WORDS not in text_of(page)
    assert parsed(page).find(".//pre").text == "Why is\n  the sky blue?"
    assert "```\nWhy is\n  the sky blue?\n```" in markdown(document(asked))


def test_hostile_text_stays_text() -> None:
    page = html(document(hostile()))
    assert "<script" not in page and "<img" not in page
    assert not set(page) & {"\x00", "\x1b", "\u202e"}
    assert text_of(page).count(SEEN) > 15


def test_hostile_text_stays_text_in_markdown() -> None:
    made = markdown(document(hostile()))
    tokens = MarkdownIt("commonmark").enable("table").parse(made)
    inside = [child for token in tokens for child in (token.children or ())]
    assert not [t for t in tokens if t.type == "html_block"]
    assert not {t.type for t in inside} & {"html_inline", "link_open", "image", "code_inline"}
    # Two messages, each whole in a fence of its own.
    fences = [token.content for token in tokens if token.type == "fence"]
    assert len(fences) == 2 and all("onerror=alert(2)" in text for text in fences)
    assert SEEN in fences[0]


def test_markdown_tables_have_as_many_cells_in_every_row() -> None:
    made = markdown(document(sample(fidelity=FIDELITY)))
    tokens = MarkdownIt("commonmark").enable("table").parse(made)
    widths: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in ("td_open", "th_open"):
            widths[-1] += 1
    assert len(widths) > 40
    stray = re.findall(r"^\|.*\|\s*$", made, flags=re.MULTILINE)
    in_tables = sum(token.type == "tr_open" for token in tokens)
    # One line of each table is the rule under its head.
    assert len(stray) == in_tables + sum(token.type == "table_open" for token in tokens)


def test_a_long_conversation_of_many_slots_stays_under_a_megabyte() -> None:
    kept = history(((16, 4080),), slots=32)
    report = sample(kept, fidelity=FIDELITY | {"kl_of_every_token": [0.1] * 4080})
    assert kept.snapshot is not None and kept.snapshot.tokens == 4096
    page = html(document(report))
    parsed(page)
    assert len(page.encode()) < 1_000_000


def test_every_chart_is_a_whole_drawing() -> None:
    made = document(sample(fidelity=FIDELITY))
    charts = [item for section in made.sections for item in section.items if isinstance(item, Chart)]
    assert len(charts) == 6
    for chart in charts:
        root = fromstring(chart.svg)
        assert (
            root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("viewBox") and root.get("aria-label")
        )
    page, drawings = printed(made, 500)
    assert drawings == charts
    assert [int(n) for n in re.findall(r'src="chart:(\d+)"', page)] == list(range(6))


def test_two_reports_side_by_side() -> None:
    first = sample(fidelity=FIDELITY | {"through": ["skvq:Balanced"]})
    second = sample(history(((300, 700),), slots=4, foreign=frozenset({1})), reference=None)
    second["method"]["parameters"]["skvq_window"]["value"] = 64
    said = text_of(html(comparison(first, second)))
    assert "different numbers of tokens" in said
    assert "Window 128 64" in said
    assert "Both of answers written through skvq:Balanced not measured" in said
    assert "not measured" in said
    per = [r["totals"]["counted_bytes"]["total"] / r["tokens"]["in_cache"] for r in (first, second)]
    assert f"{per[1] / per[0]:.2f} times A" in said
    assert "Both used the same settings." in text_of(html(comparison(first, first)))
