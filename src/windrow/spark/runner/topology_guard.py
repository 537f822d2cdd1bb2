"""Is it still the graph whose progress is kept here? Asked before anything is started.

The canonical form of the topology, with the names of its sources, lies beside the checkpoints. One
that differs would bind the progress of one processor to the queues of another, so it is refused
until somebody says that it is meant.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from windrow.errors import Failed
from windrow.graph.declaration import Graph
from windrow.graph.topology import Canonical, check_unchanged, differences
from windrow.spark.runner.checkpoint import graph_path
from windrow.spark.runner.files import Files

FILE = "topology.json"


class UnreadableTopology(Failed):
    """What is kept of the topology cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be read: {self.reason}; restore it, or run with"
            ' "--accept-topology" to write it anew'
        )


@dataclass(frozen=True, slots=True)
class Guarded:
    """What the guard did: stored it for the first time, or accepted these changes."""

    is_new: bool
    changes: tuple[str, ...] = ()


def guard_topology(files: Files, checkpoint: str, graph: Graph, *, accept: bool = False) -> Guarded:
    """See that the graph is the one whose progress is kept, and keep its topology.

    Raises:
        TopologyChanged: It is another one, and that was not accepted.
        UnreadableTopology: What is kept cannot be read, and that was not accepted.
    """
    current = graph.topology.canonical
    try:
        stored = read_topology(files, checkpoint, graph.id)
    except UnreadableTopology as error:
        if not accept:
            raise
        store_topology(files, checkpoint, graph)
        return Guarded(is_new=False, changes=(str(error),))
    changes = () if stored is None else differences(stored, current)
    if stored is not None and not changes:
        return Guarded(is_new=False)
    if stored is not None and not accept:
        check_unchanged(graph.id, stored, current)
    store_topology(files, checkpoint, graph)
    return Guarded(stored is None, changes)


def check_topology(files: Files, checkpoint: str, graph: Graph) -> None:
    """See that the graph is the one whose progress is kept, and change nothing.

    Raises:
        TopologyChanged: It is another one.
        UnreadableTopology: What is kept cannot be read.
    """
    stored = read_topology(files, checkpoint, graph.id)
    if stored is not None:
        check_unchanged(graph.id, stored, graph.topology.canonical)


def read_topology(files: Files, checkpoint: str, graph: str) -> Canonical | None:
    """The canonical form that is kept, if one is.

    Raises:
        UnreadableTopology: There is one, and it cannot be read.
    """
    path = _path(checkpoint, graph)
    content = files.read(path)
    if content is None:
        return None
    try:
        topology = json.loads(content)["topology"]
        if not isinstance(topology, dict):
            raise TypeError("it holds no topology")
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableTopology(path, repr(error)) from error
    return topology


def store_topology(files: Files, checkpoint: str, graph: Graph) -> None:
    """Keep the topology of a graph beside its checkpoints."""
    document = {
        "graph": graph.id,
        "fingerprint": graph.topology.fingerprint,
        "sources": sorted(source.id for source in graph.sources),
        "topology": graph.topology.canonical,
    }
    content = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    files.write(_path(checkpoint, graph.id), content.encode())


def _path(checkpoint: str, graph: str) -> str:
    return f"{graph_path(checkpoint, graph)}/{FILE}"
