"""What is wrong with a graph? All of it, each in one sentence that names the part and the value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from windrow.graph.cycles import find_cycle
from windrow.graph.outline import Outline
from windrow.graph.policies import EXACTLY_ONCE, OnError, Strategy
from windrow.graph.processor_checks import choice_mistakes, processor_mistakes, retry_mistakes
from windrow.graph.processors import Processor
from windrow.graph.queue_checks import queue_mistakes

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_ID = re.compile(_NAME)
_UID = re.compile(f"{_NAME}/{_NAME}")
_ID_RULE = 'use letters, digits, ".", "_" and "-", a letter or digit first, 100 at most'
_UID_RULE = "it must be written as graph/processor, by the names they had"


def mistakes_in(outline: Outline) -> tuple[str, ...]:
    """Every mistake in a declaration, none if it can run; the same for the same declaration."""
    return tuple(dict.fromkeys(_mistakes(outline)))


def _mistakes(outline: Outline) -> Iterator[str]:
    yield from _graph_mistakes(outline)
    yield from _id_mistakes(outline)
    yield from _uid_mistakes(outline)
    for processor in outline.working:
        yield from processor_mistakes(outline, processor)
    yield from queue_mistakes(outline)
    yield from _dangling(outline)
    yield from _second_readers(outline)
    yield from _cycles(outline)


def _graph_mistakes(outline: Outline) -> Iterator[str]:
    if not _is_id(outline.id):
        yield f'"{outline.id}" is no name for a graph; {_ID_RULE}'
    if not outline.working:
        yield "it has no processors"
    yield from choice_mistakes("strategy", outline.strategy, Strategy)
    if outline.on_error is not None:
        yield from choice_mistakes("on_error", outline.on_error, OnError)
    if outline.errors and outline.on_error in ("stop", "drop"):
        yield f'has the error queue "{outline.errors}" and on_error "{outline.on_error}"; keep one'
    if outline.on_error == "deadletter" and not outline.errors:
        yield 'has on_error "deadletter" and no error queue; name one with errors'
    yield from retry_mistakes(outline.retry)
    if outline.source is not None and outline.source not in {s.id for s in outline.sources}:
        yield f'messages are sent to "{outline.source}", which is no source'


def _id_mistakes(outline: Outline) -> Iterator[str]:
    count = Counter(part.id for part in outline.processors)
    for name in sorted(name for name, times in count.items() if times > 1):
        yield f'"{name}" is declared twice'
    for processor in outline.working:
        if not _is_id(processor.id):
            yield f'"{processor.id}" is no name for a processor; {_ID_RULE}'


def _is_id(name: object) -> bool:
    return isinstance(name, str) and _ID.fullmatch(name) is not None


def _uid_mistakes(outline: Outline) -> Iterator[str]:
    """Progress is kept by uid: two processors of one uid would take each other's for their own."""
    seen: dict[str, Processor] = {}
    for processor in outline.working:
        uid = outline.uid_of(processor)
        if processor.uid is not None and not _UID.fullmatch(processor.uid):
            yield f'processor "{processor.id}" has the uid "{uid}"; {_UID_RULE}'
        other = seen.setdefault(uid, processor)
        if other is processor or other.id == processor.id:
            continue
        tables = sorted(_tables(outline, processor) & _tables(outline, other))
        why = f' and both write the table "{tables[0]}" exactly once' if tables else ""
        pair = f'processors "{other.id}" and "{processor.id}"'
        yield f'{pair} have the uid "{uid}"{why}; give each its own'


def _tables(outline: Outline, processor: Processor) -> set[str]:
    if outline.strategy_of(processor) != EXACTLY_ONCE:
        return set()
    queues = (outline.queue(name) for _, name in outline.written_by(processor))
    return {queue.postgres for queue in queues if queue.postgres}


def _dangling(outline: Outline) -> Iterator[str]:
    """Queues that are read and never filled, and sources that are filled and never read."""
    filled = {source.id for source in outline.sources}
    for processor in outline.working:
        filled.update(queue for _, queue in outline.written_by(processor))
    read: set[str] = set()
    for processor in outline.working:
        for queue in sorted({queue for _, queue in outline.read_by(processor)}):
            read.add(queue)
            if queue not in filled:
                yield f'processor "{processor.id}" reads "{queue}", which nothing writes'
    for source in outline.sources:
        backend = outline.queue(source.id)
        if not backend.backend.can_read:
            yield f'source "{source.id}" lives on {backend.backend_name}, which cannot be read'
        elif source.id not in read:
            yield f'source "{source.id}" is read by nothing'


def _second_readers(outline: Outline) -> Iterator[str]:
    """What is gone once it was read must have one reader."""
    for queue in outline.queue_names():
        readers = sorted(
            f'"{processor.id}"'
            for processor in outline.working
            if queue in {name for _, name in outline.read_by(processor)}
        )
        place = outline.queue(queue)
        if place.backend.has_one_reader and len(readers) > 1:
            yield (
                f'queue "{queue}" lives on {place.backend_name}, where each message is read once,'
                f" and is read by {' and '.join(readers)}; let one copy it to a queue for all"
            )


def _cycles(outline: Outline) -> Iterator[str]:
    edges: dict[str, set[str]] = {}
    for processor in outline.working:
        for _, queue in outline.read_by(processor):
            edges.setdefault(f'"{queue}"', set()).add(processor.id)
        written = {f'"{queue}"' for _, queue in outline.written_by(processor)}
        edges.setdefault(processor.id, set()).update(written)
    cycle = find_cycle(edges)
    if cycle is None:
        return
    # Told from a processor on: a queue's name is quoted, and so sorts before all of them.
    start = next(index for index, node in enumerate(cycle) if not node.startswith('"'))
    path = [*cycle[start:-1], *cycle[:start], cycle[start]]
    hint = "".join(_error_loop(outline, path))
    yield f"there is a cycle: {' → '.join(path)}{hint}"


def _error_loop(outline: Outline, path: list[str]) -> Iterator[str]:
    """If errors close the cycle, which processor should keep its errors to itself."""
    names = {processor.id: processor for processor in outline.working}
    for node, queue in pairwise(path):
        processor = names.get(node)
        if processor is None:
            continue
        error_queue = outline.errors_of(processor).queue
        if queue == f'"{error_queue}"' and error_queue not in processor.writes.values():
            yield f'; errors close it: give "{node}" an error queue of its own, or on_error "stop"'
            return
