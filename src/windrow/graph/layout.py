"""Where does each queue and processor of a graph stand, so that few lines cross?

The usual way for layered drawings: a column for each step from the sources, long lines kept out of
the way by invisible nodes in the columns between, and each column sorted by where its neighbours
stand. Names break every tie, so that the same graph is always laid out the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from windrow.graph.cycles import ordered
from windrow.graph.declaration import Graph

_SWEEPS = 4

LineKind = Literal["flow", "error", "by hand"]


@dataclass(frozen=True, order=True)
class Node:
    """A queue or a processor, or a bend in a line that passes a column."""

    kind: Literal["queue", "processor", "bend"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, order=True)
class Line:
    """A way from one node to another, bends included."""

    path: tuple[Node, ...]
    kind: LineKind


@dataclass(frozen=True)
class Layout:
    """The columns from left to right, each from top to bottom, and the lines between them."""

    columns: Sequence[Sequence[Node]]
    lines: Sequence[Line]


def layout_of(graph: Graph) -> Layout:
    """Lay a graph out."""
    ways = sorted(set(_ways(graph)))
    rank = _ranks(ways)
    lines = [_with_bends(start, end, kind, rank) for start, end, kind in ways]
    columns: list[list[Node]] = [[] for _ in range(max(rank.values()) + 1)]
    for node in sorted(rank):
        columns[rank[node]].append(node)
    for line in lines:
        for bend in line.path[1:-1]:
            columns[rank[line.path[0]] + line.path.index(bend)].append(bend)
    return Layout(_untangled(columns, lines), lines)


def _ways(graph: Graph) -> Iterable[tuple[Node, Node, LineKind]]:
    for processor in graph.working:
        box = Node("processor", processor.id)
        for queue in processor.inputs.values():
            yield Node("queue", queue), box, "flow"
        for queue in processor.writes.values():
            yield box, Node("queue", queue), "flow"
        for queue in processor.tailers.values():
            yield Node("queue", queue), box, "by hand"
        for queue in processor.appenders.values():
            yield box, Node("queue", queue), "by hand"
        error_queue = graph.errors_of(processor).queue
        if error_queue:
            yield box, Node("queue", error_queue), "error"


def _ranks(ways: Iterable[tuple[Node, Node, LineKind]]) -> dict[Node, int]:
    """How many steps each node is from the sources, by the longest way."""
    nodes = {str(node): node for start, end, _ in ways for node in (start, end)}
    edges: dict[str, set[str]] = {}
    for start, end, _ in ways:
        edges.setdefault(str(start), set()).add(str(end))
    rank = dict.fromkeys(nodes.values(), 0)
    for name in ordered(nodes.keys(), edges):
        for follower in edges.get(name, ()):
            rank[nodes[follower]] = max(rank[nodes[follower]], rank[nodes[name]] + 1)
    return rank


def _with_bends(start: Node, end: Node, kind: LineKind, rank: dict[Node, int]) -> Line:
    between = range(rank[start] + 1, rank[end])
    bends = [Node("bend", f"{start}>{end}@{column}") for column in between]
    return Line((start, *bends, end), kind)


def _untangled(columns: list[list[Node]], lines: Iterable[Line]) -> list[list[Node]]:
    """Sort each column by where its neighbours stand, from left to right and back."""
    left: dict[Node, list[Node]] = {}
    right: dict[Node, list[Node]] = {}
    for line in lines:
        for one, other in pairwise(line.path):
            right.setdefault(one, []).append(other)
            left.setdefault(other, []).append(one)
    for sweep in range(_SWEEPS):
        is_forward = sweep % 2 == 0
        neighbours = left if is_forward else right
        order = range(1, len(columns)) if is_forward else range(len(columns) - 2, -1, -1)
        for number in order:
            beside = columns[number - 1 if is_forward else number + 1]
            columns[number] = _sorted_by(columns[number], beside, neighbours)
    return columns


def _sorted_by(
    column: list[Node], beside: list[Node], neighbours: dict[Node, list[Node]]
) -> list[Node]:
    # Heights are taken as shares: columns of two and of ten nodes span the same drawing.
    height = {node: (row + 0.5) / len(beside) for row, node in enumerate(beside)}
    own = {node: (row + 0.5) / len(column) for row, node in enumerate(column)}

    def middle(node: Node) -> float:
        found = [height[other] for other in neighbours.get(node, ()) if other in height]
        return sum(found) / len(found) if found else own[node]

    return sorted(column, key=lambda node: (round(middle(node), 9), node))
