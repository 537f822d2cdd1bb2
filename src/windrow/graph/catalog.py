"""How are declared processors used again: in another graph, under other names, with some replaced?

A catalog is a bag of parts that need not be a graph yet. Renaming a queue leaves the name under
which a function knows it, so that the function works unchanged wherever its processor is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeVar

from windrow.graph.errors import UnknownInCatalog
from windrow.graph.processors import Part, Processor, Source
from windrow.graph.queues import Queue

T = TypeVar("T")


@dataclass(frozen=True)
class Catalog:
    """Sources, processors and queues to make graphs of.

    ::

        ours = bind_catalog(billing, queues={"in": "orders"})
        Graph("shop", ours.processors, queues=ours.queues)
    """

    processors: Sequence[Part]
    queues: Sequence[Queue] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "processors", tuple(self.processors))
        object.__setattr__(self, "queues", tuple(self.queues))


def merge_catalogs(*catalogs: Catalog) -> Catalog:
    """All of them as one: of parts with one name the later wins, in the place of the earlier."""
    return Catalog(
        _later_wins((part.id, part) for catalog in catalogs for part in catalog.processors),
        _later_wins((queue.name, queue) for catalog in catalogs for queue in catalog.queues),
    )


def bind_catalog(
    catalog: Catalog,
    *,
    queues: Mapping[str, str] | None = None,
    processors: Mapping[str, str] | None = None,
) -> Catalog:
    """The catalog with its queues and processors renamed, old name to new; others stay.

    Raises:
        UnknownInCatalog: It has no queue or processor of an old name.
    """
    queues, processors = queues or {}, processors or {}
    _refuse_unknown("queue", queues, _queue_names(catalog))
    _refuse_unknown("processor", processors, {p.id for p in _working(catalog)})
    return Catalog(
        [_bound(part, queues, processors) for part in catalog.processors],
        [replace(queue, name=queues.get(queue.name, queue.name)) for queue in catalog.queues],
    )


def _later_wins(named: Iterable[tuple[str, T]]) -> tuple[T, ...]:
    return tuple(dict(named).values())


def _working(catalog: Catalog) -> list[Processor]:
    return [part for part in catalog.processors if isinstance(part, Processor)]


def _queue_names(catalog: Catalog) -> set[str]:
    found = {queue.name for queue in catalog.queues}
    for part in catalog.processors:
        if not isinstance(part, Processor):
            found.add(part.id)
            continue
        for bound in (part.reads, part.alts, part.writes, part.tailers, part.appenders):
            found.update(bound.values())
        found.update({part.errors} if part.errors else ())
    return found


def _refuse_unknown(what: str, asked: Iterable[str], known: set[str]) -> None:
    for name in sorted(set(asked) - known):
        near = get_close_matches(name, sorted(known), n=1)
        raise UnknownInCatalog(what, name, near[0] if near else None)


def _bound(part: Part, queues: Mapping[str, str], processors: Mapping[str, str]) -> Part:
    if not isinstance(part, Processor):
        return Source(queues.get(part.id, part.id))

    def renamed(bound: Mapping[str, str]) -> dict[str, str]:
        return {name: queues.get(queue, queue) for name, queue in bound.items()}

    return replace(
        part,
        id=processors.get(part.id, part.id),
        reads=renamed(part.reads),
        alts=renamed(part.alts),
        writes=renamed(part.writes),
        tailers=renamed(part.tailers),
        appenders=renamed(part.appenders),
        errors=queues.get(part.errors, part.errors) if part.errors else None,
    )
