"""How does a graph look on a page: SVG by itself, or HTML with its figures in tables?

No script, no font and no address in it; colours follow the reader's light or dark setting. The
drawing carries a title, and the whole graph in words, for who cannot see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from windrow.graph.declaration import Graph
from windrow.graph.drawing import Figures, in_order, place_of, sentence_of, shown, title_of
from windrow.graph.layout import Layout, Line, Node, layout_of

_CHARACTER = 7.4
_PADDING = 14
_LINE_HEIGHT = 16
_COLUMN_GAP = 64
_ROW_GAP = 18
_MARGIN = 16
_BEND_HEIGHT = 6

_STYLE = """\
.windrow{--ink:#1d2733;--soft:#5a6877;--paper:#fff;--queue:#e8f1fb;--box:#fff4dc;--bad:#b3261e}
@media (prefers-color-scheme:dark){.windrow{--ink:#e6ebf1;--soft:#9fb0c0;--paper:#12181f;\
--queue:#1d3247;--box:#43371a;--bad:#ff8a80}}
.windrow{background:var(--paper);color:var(--ink);font:13px ui-sans-serif,system-ui,sans-serif}
.windrow text{fill:var(--ink);text-anchor:middle}
.windrow .name{font-weight:600}
.windrow .note{fill:var(--soft);font-size:11px}
.windrow rect{stroke:var(--soft)}
.windrow .queue rect{fill:var(--queue)}
.windrow .processor rect{fill:var(--box)}
.windrow .source rect{stroke-width:2.5}
.windrow path{fill:none;stroke:var(--soft);stroke-width:1.5}
.windrow path.error{stroke:var(--bad);stroke-dasharray:5 4}
.windrow path.by-hand{stroke-dasharray:2 4}
.windrow marker path{fill:var(--soft);stroke:none}
"""


@dataclass(frozen=True)
class _Box:
    """Where a node stands, and what is written in it."""

    x: float
    y: float
    width: float
    height: float
    texts: Sequence[str]

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def draw_svg(graph: Graph, figures: Figures | None = None) -> str:
    """The graph as one SVG element, to be saved as a file or put into a page."""
    figures = figures or Figures()
    layout = layout_of(graph)
    boxes = _placed(layout, {node: _texts(graph, node, figures) for node in _drawn(layout)})
    width = max(box.x + box.width for box in boxes.values()) + _MARGIN
    height = max(box.y + box.height for box in boxes.values()) + _MARGIN
    words = " ".join(sentence_of(graph, processor) for processor in in_order(graph))
    sources = {source.id for source in graph.sources}
    name = f"windrow-{graph.id}"  # several graphs may stand on one page
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="windrow" role="img"'
            f' aria-labelledby="{name}-title {name}-words"'
            f' viewBox="0 0 {_px(width)} {_px(height)}"'
            f' width="{_px(width)}" height="{_px(height)}">',
            f'<title id="{name}-title">{escape(title_of(graph))}</title>',
            f'<desc id="{name}-words">{escape(words)}</desc>',
            f"<style>\n{_STYLE}</style>",
            f'<defs><marker id="{name}-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>',
            *(_line(line, boxes, f"{name}-arrow") for line in layout.lines),
            *(_node(node, boxes[node], sources) for node in _drawn(layout)),
            "</svg>\n",
        ]
    )


def draw_html(graph: Graph, figures: Figures | None = None) -> str:
    """The graph as a whole page: the drawing, and tables of what it shows."""
    figures = figures or Figures()
    processors = (
        (
            processor.id,
            processor.kind.value,
            graph.strategy_of(processor),
            graph.errors_of(processor).on_error,
            shown(figures.processors.get(processor.id, {})),
        )
        for processor in in_order(graph)
    )
    queues = (
        (name, place_of(graph, name), shown(figures.queues.get(name, {})))
        for name in graph.queue_names()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title_of(graph))}</title>
<style>
body{{font:15px ui-sans-serif,system-ui,sans-serif;margin:2rem;color-scheme:light dark}}
.picture{{overflow-x:auto}}
table{{border-collapse:collapse;margin:1.5rem 0}}
caption{{text-align:left;font-weight:600}}
th,td{{text-align:left;padding:.3rem .9rem .3rem 0;border-bottom:1px solid #8886}}
</style>
</head>
<body>
<h1>{escape(graph.id)}</h1>
<div class="picture" tabindex="0" role="region" aria-label="Drawing">
{draw_svg(graph, figures)}</div>
{_html_table("Processors", ("processor", "kind", "strategy", "on error", "figures"), processors)}
{_html_table("Queues", ("queue", "lives on", "figures"), queues)}
</body>
</html>
"""


def _drawn(layout: Layout) -> list[Node]:
    return [node for column in layout.columns for node in column if node.kind != "bend"]


def _texts(graph: Graph, node: Node, figures: Figures) -> list[str]:
    if node.kind == "queue":
        notes = [place_of(graph, node.name), shown(figures.queues.get(node.name, {}))]
    else:
        processor = graph.processor(node.name)
        notes = [
            f"{processor.kind}, {graph.strategy_of(processor)}",
            shown(figures.processors.get(node.name, {})),
        ]
    return [node.name, *(note for note in notes if note)]


def _placed(layout: Layout, texts: Mapping[Node, Sequence[str]]) -> dict[Node, _Box]:
    """Columns beside each other, each centred on the tallest one."""
    sizes = {node: _size(texts.get(node, ())) for column in layout.columns for node in column}
    heights = [
        sum(sizes[node][1] for node in column) + _ROW_GAP * (len(column) - 1)
        for column in layout.columns
    ]
    boxes: dict[Node, _Box] = {}
    x = float(_MARGIN)
    for column, column_height in zip(layout.columns, heights, strict=True):
        width = max(sizes[node][0] for node in column)
        y = _MARGIN + (max(heights) - column_height) / 2
        for node in column:
            height = sizes[node][1]
            boxes[node] = _Box(x, y, width, height, texts.get(node, ()))
            y += height + _ROW_GAP
        x += width + _COLUMN_GAP
    return boxes


def _size(texts: Sequence[str]) -> tuple[float, float]:
    if not texts:
        return 0.0, float(_BEND_HEIGHT)
    widest = max(len(text) for text in texts)
    return widest * _CHARACTER + 2 * _PADDING, len(texts) * _LINE_HEIGHT + _PADDING


def _line(line: Line, boxes: Mapping[Node, _Box], arrow: str) -> str:
    """A curve from node to node; it runs straight through the column of a bend."""
    start = boxes[line.path[0]]
    path = f"M{_px(start.x + start.width)} {_px(start.middle)}"
    for one, other in pairwise(line.path):
        left, right = boxes[one], boxes[other]
        begin, end = left.x + left.width, right.x
        half = (begin + end) / 2
        path += (
            f"C{_px(half)} {_px(left.middle)} {_px(half)} {_px(right.middle)}"
            f" {_px(end)} {_px(right.middle)}"
        )
        if other.kind == "bend":
            path += f"H{_px(right.x + right.width)}"
    kind = line.kind.replace(" ", "-")
    return f'<path class="{kind}" marker-end="url(#{arrow})" d="{path}"/>'


def _node(node: Node, box: _Box, sources: set[str]) -> str:
    is_source = node.kind == "queue" and node.name in sources
    radius = box.height / 2 if node.kind == "queue" else 4
    centre = _px(box.x + box.width / 2)
    first = box.middle - (len(box.texts) - 1) * _LINE_HEIGHT / 2 + 4.5
    texts = "".join(
        f'<text class="{"note" if row else "name"}" x="{centre}"'
        f' y="{_px(first + row * _LINE_HEIGHT)}">{escape(text)}</text>'
        for row, text in enumerate(box.texts)
    )
    return (
        f'<g class="{node.kind}{" source" if is_source else ""}">'
        f'<rect x="{_px(box.x)}" y="{_px(box.y)}" width="{_px(box.width)}"'
        f' height="{_px(box.height)}" rx="{_px(radius)}"/>{texts}</g>'
    )


def _html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    body = "\n".join(
        "<tr>"
        + f'<th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table>\n<caption>{caption}</caption>\n<tr>{head}</tr>\n{body}\n</table>"


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
