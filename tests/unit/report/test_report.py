from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.report import (
    Bar,
    BarPlot,
    Column,
    LinePlot,
    Mark,
    Page,
    Section,
    Series,
    Table,
    Text,
    Verdict,
)
from windrow.report.cells import exact, shown
from windrow.report.scale import Scale, ticks

NASTY = """</script><script>alert("1")</script> <b> & ' " ü"""


class Seen(HTMLParser):
    """What a reader of the page finds: elements with their attributes, and the text in each."""

    VOID = frozenset({"meta", "path", "rect"})

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[int] = []
        self.feed(page)
        self.close()
        assert not self._open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in self.VOID:
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for index in self._open:
            self.texts[index] += data

    def all(self, tag: str, **wanted: str) -> list[tuple[dict[str, str | None], str]]:
        return [
            (attributes, text)
            for (name, attributes), text in zip(self.elements, self.texts, strict=True)
            if name == tag
            and all(attributes.get(key.replace("_", "-")) == value for key, value in wanted.items())
        ]


def test_numbers_of_a_table_are_shown_for_people_and_exact_for_programs() -> None:
    table = Table("counts", ["what", "n", Column("delay", "ms", 1)], [["a", 12345, 1234.5678]])
    seen = Seen(table.to_html())
    (count,) = seen.all("td", data_column="n", data_row="a")
    assert count == (count[0], "12,345")
    assert count[0]["data-value"] == "12345"
    (delay,) = seen.all("td", data_column="delay")
    assert (delay[0]["data-value"], delay[1]) == ("1234.5678", "1,234.6 ms")


def test_what_was_not_measured_is_a_dash_and_null() -> None:
    (cell,) = Seen(Table("t", ["what", "n"], [["a", None]]).to_html()).all("td")
    assert (cell[0]["data-value"], cell[1]) == ("null", "–")


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells do not fit into 2 columns"):
        Table("t", ["a", "b"], [["x"]]).to_html()


def test_page_embeds_the_data_it_was_made_from() -> None:
    data = {"text": NASTY, "number": 0.1, "list": [1, None, True]}
    page = Page("t", [], data).to_html()
    ((attributes, text),) = Seen(page).all("script")
    assert attributes == {"type": "application/json", "id": "report"}
    assert json.loads(text) == data


def test_data_without_a_json_form_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        Page("t", [], {"p50": float("nan")}).to_html()


@given(st.text(max_size=40))
def test_whatever_is_said_stays_text(text: str) -> None:
    page = Page(
        text,
        [
            Section(
                text,
                [
                    Text(text),
                    Table(text, ["a", text], [[text, text], ["x", Verdict("fail", text)]]),
                    LinePlot(text, [Series(text, [(0, 1), (1, 2)])], [Mark(0.5, text, 0.7)]),
                    BarPlot(text, [Bar(text, 1.0, text)]),
                ],
                Verdict("pass", text),
            )
        ],
        {"data": text},
        text,
    )
    plain = Page(
        "t",
        [
            Section(
                "t",
                [
                    Text("t"),
                    Table("t", ["a", "t"], [["t", "t"], ["x", Verdict("fail", "t")]]),
                    LinePlot("t", [Series("t", [(0, 1), (1, 2)])], [Mark(0.5, "t", 0.7)]),
                    BarPlot("t", [Bar("t", 1.0, "t")]),
                ],
                Verdict("pass", "t"),
            )
        ],
        {"data": "t"},
        "t",
    )
    tags = [tag for tag, _ in Seen(page.to_html()).elements]
    if text:  # an empty kind or lead has no element of its own
        assert tags == [tag for tag, _ in Seen(plain.to_html()).elements]


def test_markup_in_a_name_ends_no_attribute() -> None:
    (cell,) = Seen(Table("t", ["a", NASTY], [[NASTY, 1]]).to_html()).all("td")
    assert cell[0]["data-row"] == NASTY
    assert cell[0]["data-column"] == NASTY


def test_page_needs_nothing_beside_itself_and_runs_nothing() -> None:
    page = Page(
        "t",
        [Section("s", [LinePlot("p", [Series("a", [(0, 1)])]), BarPlot("b", [Bar("x", 1)])])],
        {},
    ).to_html()
    for attribute in ("src=", "href=", "url(", "@import", "onload", "onclick", "http:", "https:"):
        assert attribute not in page
    assert "default-src 'none'" in page
    assert "prefers-color-scheme:dark" in page


def test_every_plot_has_title_words_and_a_table_of_its_numbers() -> None:
    plot = LinePlot(
        "backlog",
        [Series("waiting", [(0, 3), (1, None), (2, 7.25)])],
        [Mark(0.5, "relay killed"), Mark(1, "receiver offline", 1.5)],
        id="b",
    )
    seen = Seen(plot.to_html())
    ((svg, _),) = seen.all("svg", role="img")
    assert svg["aria-labelledby"] == "b-title b-words"
    assert seen.all("title", id="b-title")[0][1] == "backlog"
    words = seen.all("desc", id="b-words")[0][1]
    assert "from 3 to 7.25, at last 7.25" in words
    assert "relay killed at 0.5 s; receiver offline at 1 to 1.5 s" in words
    values = [cell[0]["data-value"] for cell in seen.all("td", data_column="waiting")]
    assert values == ["3", "null", "7.25"]
    ((line, _),) = seen.all("path", data_series="waiting")
    assert line["data-points"] == "0,3 1,null 2,7.25"
    assert line["d"] is not None
    assert line["d"].count("M") == 2, "the line is broken where nothing was measured"
    assert [mark[0]["data-label"] for mark in seen.all("g")] == ["relay killed", "receiver offline"]


def test_every_bar_carries_its_number() -> None:
    plot = BarPlot("lost", [Bar("S1 outbox", 0, "outbox"), Bar("S1 sync", 17, "sync")])
    seen = Seen(plot.to_html())
    bars = {
        bar["data-label"]: bar["data-value"] for bar, _ in seen.all("rect") if "data-label" in bar
    }
    assert bars == {"S1 outbox": "0", "S1 sync": "17"}
    assert [cell[0]["data-value"] for cell in seen.all("td")] == ["0", "17"]


def test_plots_of_nothing_are_drawn() -> None:
    assert "nothing measured" in LinePlot("empty", [Series("a", [])]).to_html()
    assert "<figure" in BarPlot("empty", []).to_html()
    assert "not measured" in BarPlot("empty", [Bar("a", None)]).to_html()


def test_a_verdict_says_its_grade_in_words_and_signs() -> None:
    assert "✓" in Verdict.of(True).to_html()
    seen = Seen(Verdict.of(False, "lost 3").to_html())
    assert seen.all("span", data_verdict="fail")[0][1] == "✗ lost 3"


@given(
    st.floats(-1e9, 1e9, allow_nan=False),
    st.floats(0, 1e9, allow_nan=False).filter(lambda width: width == 0 or width > 1e-3),
)
def test_ticks_are_few_rise_and_span_what_is_drawn(low: float, width: float) -> None:
    chosen = ticks(low, low + width)
    assert 2 <= len(chosen) <= 9
    assert chosen == sorted(set(chosen))
    assert chosen[0] <= low + 1e-6 * max(abs(low), width)
    assert chosen[-1] >= low + width - 1e-6 * max(abs(low + width), width)


def test_a_scale_without_extent_puts_all_in_one_place() -> None:
    assert Scale(1, 1, 10, 90).at(5) == 10
    assert Scale(0, 10, 10, 90).at(5) == 50


@given(st.one_of(st.integers(-(10**12), 10**12), st.floats(allow_nan=True, allow_infinity=True)))
def test_exact_is_json_and_reads_back(value: float) -> None:
    read = json.loads(exact(value))
    assert read == value or (read is None and shown(value) == "–")


def test_labels_of_marks_close_together_stand_on_different_rows() -> None:
    marks = [Mark(at, "killed at before-claim") for at in (1.0, 1.2, 1.4, 9.9)]
    plot = LinePlot("p", [Series("a", [(0, 0), (10, 10)])], marks)
    texts = [
        attributes
        for attributes, text in Seen(plot.to_html()).all("text")
        if text.startswith("killed")
    ]
    assert [text["y"] for text in texts] == ["28", "42", "56", "28"]
    assert [text.get("class") for text in texts] == [None, None, None, "end"]
