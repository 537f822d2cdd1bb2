from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph.shapes import few, made, outlines
from windrow.graph import Figures, Graph, Queue, Source, draw_html, draw_svg, draw_text
from windrow.graph.layout import layout_of
from windrow.graph.outline import Outline

GOLDEN = Path(__file__).parent / "golden"
SVG = "{http://www.w3.org/2000/svg}"
SHOP = Graph(
    "shop",
    [
        Source("orders"),
        Source("prices"),
        made("enrich", reads=["orders", "prices"], writes=["priced", "audit"]),
        made("split", reads="priced", writes="lines", many=True),
        made("copy", reads="priced", tailers="prices", appenders="aside"),
        made("watch", alts=["aside", "audit", "lines"], on_error="stop"),
    ],
    queues=[Queue("orders", outbox="outbox"), Queue("lines", kafka="lines")],
    errors="failed",
)
FIGURES = Figures(
    queues={"orders": {"offset": 1200, "lag": 3}, "failed": {"offset": 2}},
    processors={"enrich": {"errors": 2, "state": "running"}},
)


@pytest.mark.parametrize(("name", "draw"), [("shop.txt", draw_text), ("shop.svg", draw_svg)])
def test_a_known_graph_is_drawn_as_it_was(name: str, draw: type) -> None:
    """Look at the new drawing before it replaces the one that is kept."""
    assert draw(SHOP, FIGURES) == (GOLDEN / name).read_text(encoding="utf-8")


@few
@given(outlines(), st.randoms())
def test_a_drawing_does_not_depend_on_the_order_of_declaration(
    outline: Outline, random: random.Random
) -> None:
    parts = list(outline.processors)
    random.shuffle(parts)
    graph, other = Graph(**vars(outline)), Graph(**vars(replace(outline, processors=parts)))
    assert draw_text(graph) == draw_text(other)
    assert draw_svg(graph) == draw_svg(other)


@few
@given(outlines())
def test_every_queue_and_processor_is_drawn_once_and_every_line_goes_forward(
    outline: Outline,
) -> None:
    graph = Graph(**vars(outline))
    layout = layout_of(graph)
    drawn = [node for column in layout.columns for node in column if node.kind != "bend"]
    names = [("queue", name) for name in graph.queue_names()]
    names += [("processor", processor.id) for processor in graph.working]
    assert sorted((node.kind, node.name) for node in drawn) == sorted(names)
    column_of = {node: n for n, column in enumerate(layout.columns) for node in column}
    for line in layout.lines:
        columns = [column_of[node] for node in line.path]
        assert columns == list(range(columns[0], columns[0] + len(columns)))


def test_nothing_is_drawn_over_anything_else() -> None:
    root = ElementTree.fromstring(draw_svg(SHOP, FIGURES))
    boxes = [
        tuple(float(box.attrib[side]) for side in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
    ]
    for number, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[number + 1 :]:
            beside = x + width <= other_x or other_x + other_width <= x
            below = y + height <= other_y or other_y + other_height <= y
            assert beside or below


def test_the_drawing_says_in_words_what_it_shows() -> None:
    root = ElementTree.fromstring(draw_svg(SHOP))
    title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert words is not None
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], words.attrib["id"]]
    assert title.text == 'graph "shop": 4 processors, 7 queues, exactly-once'
    assert str(words.text).startswith(
        "enrich (join-fork) reads orders and prices and writes audit and priced; its errors go to"
        " failed. copy (imperative) reads priced, uses aside and prices by hand;"
    )
    assert str(words.text).endswith("watch (sink) reads aside, audit or lines.")


def test_what_is_shown_cannot_break_the_page() -> None:
    graph = Graph(
        "shop",
        [Source("orders"), made("post", reads="orders", writes="hook", strategy="at-least-once")],
        queues=[Queue("hook", http="https://example.org/?a=1&b=<script>alert(1)</script>")],
    )
    figures = Figures(processors={"post": {"last error": '<img src="x">&'}})
    page = draw_html(graph, figures)
    assert "<script" not in page
    assert "<img" not in page
    ElementTree.fromstring(draw_svg(graph, figures))


def test_a_page_has_the_drawing_and_its_figures_in_tables() -> None:
    page = draw_html(SHOP, FIGURES)
    assert page.startswith("<!DOCTYPE html>")
    assert draw_svg(SHOP, FIGURES) in page
    assert "<caption>Processors</caption>" in page
    assert "<td>errors 2, state running</td>" in page
    assert "<td>offset 1,200, lag 3</td>" in page
