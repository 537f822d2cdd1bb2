"""How does a graph look in a terminal, and in words?

Each processor is drawn with what it reads on its left and what it writes on its right, in an order
in which every queue is written before it is read. The same graph gives the same drawing, in
whatever order it was declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windrow.graph.declaration import Graph
from windrow.graph.processors import Processor

_CORNERS = {
    frozenset("l"): "─",
    frozenset("r"): "─",
    frozenset("lr"): "─",
    frozenset("ld"): "┐",
    frozenset("lu"): "┘",
    frozenset("lud"): "┤",
    frozenset("rd"): "┌",
    frozenset("ru"): "└",
    frozenset("rud"): "├",
    frozenset("lrd"): "┬",
    frozenset("lru"): "┴",
    frozenset("lrud"): "┼",
}
_BY_HAND = " (by hand)"


@dataclass(frozen=True)
class Figures:
    """Numbers to show: by name of the queue or processor, then by what they count.

    ::

        Figures(queues={"orders": {"offset": 120, "lag": 3}}, processors={"price": {"errors": 1}})
    """

    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    processors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def draw_text(graph: Graph, figures: Figures | None = None) -> str:
    """The graph for a terminal, as lines without colours that end in a newline."""
    figures = figures or Figures()
    stars = [_Star.of(graph, processor) for processor in in_order(graph)]
    left = max(len(name) for star in stars for name in star.inputs)
    middle = max(len(star.box) for star in stars)
    lines = [title_of(graph), ""]
    for star in stars:
        lines += [*star.lines(left, middle), ""]
    lines += _table("processors", _processor_rows(graph, figures))
    lines += _table("queues", _queue_rows(graph, figures))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def in_order(graph: Graph) -> list[Processor]:
    """The processors, each after those it depends on."""
    by_id = {processor.id: processor for processor in graph.working}
    return [by_id[name] for name in graph.topology.order if name in by_id]


def title_of(graph: Graph) -> str:
    """The graph in one line."""
    processors, queues = len(graph.working), len(graph.queue_names())
    return (
        f'graph "{graph.id}": {_counted(processors, "processor")},'
        f" {_counted(queues, 'queue')}, {graph.strategy}"
    )


def sentence_of(graph: Graph, processor: Processor) -> str:
    """One processor in words, for who cannot see the drawing."""
    reads = _listed(sorted(processor.inputs.values()), "and" if processor.reads else "or")
    writes = _listed(sorted(processor.writes.values()), "and")
    errors = graph.errors_of(processor).queue
    by_hand = _listed(sorted({*processor.tailers.values(), *processor.appenders.values()}), "and")
    return (
        f"{processor.id} ({processor.kind}) reads {reads}"
        + (f" and writes {writes}" if writes else "")
        + (f", uses {by_hand} by hand" if by_hand else "")
        + (f"; its errors go to {errors}." if errors else ".")
    )


def place_of(graph: Graph, name: str) -> str:
    """Where a queue lives, in a few words."""
    queue = graph.queue(name)
    return f"{queue.backend_name} {queue.address_in(graph.id)}"


def shown(figures: Mapping[str, Any]) -> str:
    """Figures in one line: ``offset 1,200, lag 3``."""
    return ", ".join(f"{name} {_number(value)}" for name, value in figures.items())


@dataclass(frozen=True)
class _Star:
    """One processor with its queues around it."""

    inputs: Sequence[str]
    box: str
    outputs: Sequence[tuple[str, str]]  # the head of the arrow, the name

    @classmethod
    def of(cls, graph: Graph, processor: Processor) -> _Star:
        inputs = sorted(processor.inputs.values())
        inputs += [name + _BY_HAND for name in sorted(processor.tailers.values())]
        outputs = [("▶", name) for name in sorted(processor.writes.values())]
        outputs += [("▶", name + _BY_HAND) for name in sorted(processor.appenders.values())]
        error_queue = graph.errors_of(processor).queue
        if error_queue:
            outputs.append(("✗", error_queue))
        return cls(inputs, f"[ {processor.id} · {processor.kind} ]", outputs)

    def lines(self, left: int, middle: int) -> list[str]:
        height = max(len(self.inputs), len(self.outputs))
        centre = (height - 1) // 2
        first_input = centre - (len(self.inputs) - 1) // 2
        first_output = centre - (max(len(self.outputs), 1) - 1) // 2
        return [
            self._left(row - first_input, centre - first_input, left)
            + (f"─▶ {self.box:<{middle}}" if row == centre else " " * (middle + 3))
            + self._right(row - first_output, centre - first_output)
            for row in range(height)
        ]

    def _left(self, index: int, centre: int, width: int) -> str:
        if not 0 <= index < len(self.inputs):
            return " " * (width + 6)
        corner = _corner("l", index, centre, len(self.inputs), inward="r")
        return f"  {self.inputs[index]:>{width}} ──{corner}"

    def _right(self, index: int, centre: int) -> str:
        if not 0 <= index < len(self.outputs):
            return ""
        corner = _corner("r", index, centre, len(self.outputs), inward="l")
        head, name = self.outputs[index]
        return f"{' ──' if index == centre else '   '}{corner}──{head} {name}"


def _corner(outward: str, index: int, centre: int, count: int, *, inward: str) -> str:
    """The line of one queue where it meets those of its neighbours and of the box."""
    ways = {outward}
    if index > 0:
        ways.add("u")
    if index < count - 1:
        ways.add("d")
    if index == centre:
        ways.add(inward)
    return _CORNERS[frozenset(ways)]


def _processor_rows(graph: Graph, figures: Figures) -> list[tuple[str, ...]]:
    return [
        (
            processor.id,
            graph.strategy_of(processor),
            graph.errors_of(processor).on_error + " on error",
            shown(figures.processors.get(processor.id, {})),
        )
        for processor in in_order(graph)
    ]


def _queue_rows(graph: Graph, figures: Figures) -> list[tuple[str, ...]]:
    sources = {source.id for source in graph.sources}
    return [
        (
            name,
            place_of(graph, name),
            "source" if name in sources else "",
            shown(figures.queues.get(name, {})),
        )
        for name in graph.queue_names()
    ]


def _table(heading: str, rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True) if w)
        for row in rows
    ]
    return [heading, *lines]


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _listed(names: Sequence[str], word: str) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
