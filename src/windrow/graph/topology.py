"""What leads to what, and is it still the graph whose progress was stored?

The topology keeps queues and processors apart, so that two processors with the same inputs are two.
Its canonical form holds what progress depends on, and nothing else: not the names that functions
use, not options, not the order of declaration. Processors are in it by uid, so that one that was
renamed under its old uid is the same. It is stored beside the checkpoint and compared at the start.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from windrow.graph.cycles import ordered, reachable
from windrow.graph.errors import TopologyChanged
from windrow.graph.outline import Outline
from windrow.graph.processors import Processor

Canonical = Mapping[str, Any]

_ABSENT = object()


@dataclass(frozen=True)
class Topology:
    """The queues and processors of one graph, and the ways between them."""

    outline: Outline

    @cached_property
    def edges(self) -> dict[str, frozenset[str]]:
        """From each source and processor to the processors that read what it writes."""
        readers: dict[str, set[str]] = {}
        for processor in self.outline.working:
            for _, queue in self.outline.read_by(processor):
                readers.setdefault(queue, set()).add(processor.id)
        following = {
            processor.id: {q for _, q in self.outline.written_by(processor)}
            for processor in self.outline.working
        }
        following |= {source.id: {source.id} for source in self.outline.sources}
        return {
            node: frozenset().union(*(readers.get(queue, ()) for queue in queues))
            for node, queues in following.items()
        }

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Every source and processor after what it depends on; the same for the same graph."""
        return tuple(ordered(self.edges.keys(), self.edges))

    @property
    def sources(self) -> tuple[str, ...]:
        """What nothing of the graph leads to."""
        led_to = frozenset().union(*self.edges.values())
        return tuple(node for node in self.order if node not in led_to)

    @property
    def sinks(self) -> tuple[str, ...]:
        """What leads to nothing of the graph."""
        return tuple(node for node in self.order if not self.edges[node])

    def downstreams(self, node: str, *, transitive: bool = False) -> frozenset[str]:
        """What reads from it, directly or by any way."""
        return reachable(node, self.edges) if transitive else self.edges[node]

    def upstreams(self, node: str, *, transitive: bool = False) -> frozenset[str]:
        """What it reads from, directly or by any way."""
        back: dict[str, set[str]] = {each: set() for each in self.edges}
        for each, followers in self.edges.items():
            for follower in followers:
                back[follower].add(each)
        return reachable(node, back) if transitive else frozenset(back[node])

    def writers(self, queue: str) -> tuple[str, ...]:
        """The processors that write to a queue, errors included, by name."""
        return tuple(
            sorted(
                processor.id
                for processor in self.outline.working
                if queue in {name for _, name in self.outline.written_by(processor)}
            )
        )

    def readers(self, queue: str) -> tuple[str, ...]:
        """The processors that read from a queue, by name."""
        return tuple(
            sorted(
                processor.id
                for processor in self.outline.working
                if queue in {name for _, name in self.outline.read_by(processor)}
            )
        )

    @cached_property
    def canonical(self) -> Canonical:
        """What progress depends on, as plain data that JSON can hold."""
        outline = self.outline
        filled = {source.id for source in outline.sources}
        return {
            "processors": {
                outline.uid_of(processor): self._canonical_processor(processor)
                for processor in sorted(outline.working, key=outline.uid_of)
            },
            "queues": {
                name: self._canonical_queue(name, is_source=name in filled)
                for name in outline.queue_names()
            },
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical form, in hexadecimal."""
        return fingerprint_of(self.canonical)

    def _canonical_processor(self, processor: Processor) -> dict[str, Any]:
        written = {
            "reads": sorted(processor.reads.values()),
            "alts": sorted(processor.alts.values()),
            "writes": sorted(processor.writes.values()),
            "tailers": sorted(processor.tailers.values()),
            "appenders": sorted(processor.appenders.values()),
            "errors": self.outline.errors_of(processor).queue,
            "strategy": self.outline.strategy_of(processor),
            "state": (processor.state or "stateless") if processor.form == "dataframe" else None,
            "many": processor.many,
        }
        return {name: value for name, value in written.items() if value}

    def _canonical_queue(self, name: str, *, is_source: bool) -> dict[str, Any]:
        queue = self.outline.queue(name)
        place: dict[str, Any] = {queue.backend_name: queue.address_in(self.outline.id)}
        written = {**place, "partitions": queue.partitions, "source": is_source}
        return {key: value for key, value in written.items() if value}


def canonical_json(canonical: Canonical) -> str:
    """The one way to write a canonical form: what is stored, and what the fingerprint is of."""
    return json.dumps(canonical, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def fingerprint_of(canonical: Canonical) -> str:
    """SHA-256 of a canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_json(canonical).encode()).hexdigest()


def check_unchanged(graph: str, stored: Canonical, current: Canonical) -> None:
    """Refuse to go on with a graph that is not the one whose progress was stored.

    Raises:
        TopologyChanged: It is another one; the message has every difference as a sentence.
    """
    if changes := differences(stored, current):
        raise TopologyChanged(graph, changes)


def differences(stored: Canonical, current: Canonical) -> tuple[str, ...]:
    """What has changed from the one canonical form to the other, a sentence each."""
    found: list[str] = []
    for section, what in (("processors", "processor"), ("queues", "queue")):
        before, after = stored.get(section, {}), current.get(section, {})
        for name in sorted({*before, *after}):
            subject = f'{what} "{name}"'
            if name not in after:
                found.append(f"{subject} is gone")
            elif name not in before:
                found.append(f"{subject} is new")
            else:
                found.extend(_changes(subject, before[name], after[name]))
    return tuple(found)


def _changes(subject: str, before: Canonical, after: Canonical) -> Iterator[str]:
    for key in sorted({*before, *after}):
        old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
        if old == new:
            continue
        if isinstance(old, list) or isinstance(new, list):
            yield from _list_changes(subject, key, _as_names(old), _as_names(new))
        else:
            yield f"{subject}: {key} was {_shown(old)} and is {_shown(new)}"


def _list_changes(subject: str, key: str, old: set[str], new: set[str]) -> Iterator[str]:
    """Of names that are read or written, which went and which came."""
    verb = {"reads": "reads", "alts": "reads by turns", "writes": "writes"}.get(key, f"{key}:")
    for name in sorted(old - new):
        yield f'{subject} no longer {verb} "{name}"'
    for name in sorted(new - old):
        yield f'{subject} now {verb} "{name}"'


def _as_names(value: Any) -> set[str]:
    return set(value) if isinstance(value, Iterable) else set()


def _shown(value: Any) -> str:
    return "not set" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
