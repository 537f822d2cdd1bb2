"""What is wrong with the queues of a graph, each by itself and two on one place?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

from windrow.graph.outline import Outline
from windrow.graph.queues import BackendName, MetaField, Queue, Values
from windrow.journal.errors import InvalidField
from windrow.journal.names import valid_journal

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_QUEUE_NAME = re.compile(rf"(?=.{{1,200}}\Z){_PART}(?:/{_PART})*")
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}(?:\.[A-Za-z_][A-Za-z0-9_$]{0,62})?")
_URL = re.compile(r"https?://[^\s/?#@]+(?:[/?#]\S*)?")
_USER_INFO = re.compile(r"//[^\s/?#]*@")
_FORMAT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")

_FORM_OF: dict[BackendName, tuple[re.Pattern[str], str]] = {
    "kafka": (_TOPIC, "a topic is 1 to 249 letters, digits, '.', '_' and '-'"),
    "postgres": (_TABLE, "a table is written as table or schema.table"),
    "outbox": (_TABLE, "a table is written as table or schema.table"),
    "http": (_URL, "a URL begins with http:// or https:// and holds no password"),
    "spark": (_FORMAT, "a format is a name such as parquet"),
}


def queue_mistakes(outline: Outline) -> Iterator[str]:
    """Every mistake in the queues, a sentence each."""
    yield from _declared_twice(outline)
    yield from meta_mistakes("queue_meta", outline.queue_meta)
    used = set(outline.queue_names())
    for queue in outline.queues:
        subject = f'queue "{queue.name}"'
        if queue.name not in used:
            yield f"{subject} is declared, and nothing reads or writes it"
        yield from _own_mistakes(subject, queue)
    for name in sorted(used):
        yield from _name_mistakes(outline, name)
    yield from _shared_places(outline)


def _declared_twice(outline: Outline) -> Iterator[str]:
    count = Counter(queue.name for queue in outline.queues)
    for name in sorted(name for name, times in count.items() if times > 1):
        yield f'queue "{name}" is declared twice'


def _own_mistakes(subject: str, queue: Queue) -> Iterator[str]:
    if len(queue.places) > 1:
        yield f"{subject} lives on {' and '.join(queue.places)} at once; keep one"
    if queue.values not in get_args(Values):
        yield f'{subject} has values "{queue.values}"; use {_choices(Values)}'
    if queue.partitions is not None and not _is_count(queue.partitions):
        yield f"{subject} has {queue.partitions!r} partitions; it must be a whole number from 1"
    elif queue.partitions is not None and not queue.backend.can_partition:
        yield f"{subject} lives on {queue.backend_name}, which has no partitions to set"
    for mistake in meta_mistakes("meta", queue.meta):
        yield f"{subject}: {mistake}"


def meta_mistakes(setting: str, option: Any) -> Iterator[str]:
    """What is wrong with a choice of provenance."""
    if option is None or option == "strip":
        return
    for name in option:
        if name == "strip":
            yield f"{setting} has strip beside others; strip stands alone"
        elif name not in get_args(MetaField):
            yield f'{setting} has "{name}"; use any of t, time and tx, or strip alone'


def _name_mistakes(outline: Outline, name: str) -> Iterator[str]:
    if not _QUEUE_NAME.fullmatch(name):
        yield (
            f'"{name}" is no name for a queue; use letters, digits, ".", "_" and "-", in parts'
            ' with "/" between them'
        )
        return
    queue = outline.queue(name)
    backend, address = queue.backend_name, queue.address_in(outline.id)
    if backend == "journal":
        try:
            valid_journal(address)
        except InvalidField as error:
            yield f'queue "{name}" lives on journal "{address}", which is no name for one: {error}'
        return
    form, rule = _FORM_OF[backend]
    if not form.fullmatch(address):
        shown = _USER_INFO.sub("//…@", address)
        yield f'queue "{name}" lives on {backend} "{shown}"; {rule}'


def _shared_places(outline: Outline) -> Iterator[str]:
    seen: dict[tuple[BackendName, str], str] = {}
    for name in outline.queue_names():
        queue = outline.queue(name)
        place = queue.backend_name, queue.address_in(outline.id)
        if queue.backend.is_exclusive and place in seen:
            yield f'queues "{seen[place]}" and "{name}" are both {place[0]} "{place[1]}"'
        seen.setdefault(place, name)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _choices(literal: Any) -> str:
    *others, last = get_args(literal)
    return f"{', '.join(others)} or {last}"
