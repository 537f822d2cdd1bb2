"""How do many marks fit into the registers of a journal?

A register's name has 64 bytes and its value 1024, of letters, digits and ``-_+/.=%``; registers
ride on every proposal, so there must be few. All marks of a processor are packed into values that
are filled up one after the other::

    windrow.dev/hw/<digest of the uid>/0 = murmur2-1/4/2//orders/7f3c…/0=18+1=9.2//prices/a01b…/0=3

Names are percent-encoded, so ``/``, ``+`` and ``=`` can only be separators. The same marks always
give the same text: the check of an append compares the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from urllib.parse import quote, unquote

from windrow.graph.delivery_errors import InvalidBacking
from windrow.graph.high_water import Delivered, HighWaters, Mark
from windrow.graph.positions import SourceOffsets, SourcePartition
from windrow.graph.routing import RoutingPin
from windrow.graph.snapshot import ProcessorUid

MARKS_PREFIX = "windrow.dev/hw/"
DELIVERED_PREFIX = "windrow.dev/done/"
MAX_VALUE = 1024

_GROUP = "//"


def pack_marks(waters: HighWaters) -> dict[str, str]:
    """The registers of one target partition, by name; none if nothing was written there."""
    if waters.is_blank:
        return {}
    routing = waters.routing or RoutingPin(1, "")
    head = f"{_text(routing.function)}/{routing.targets}/{waters.epoch}"
    return _pack(MARKS_PREFIX, waters.uid, head, waters.marks)


def unpack_marks(uid: ProcessorUid, target: int, registers: Mapping[str, str]) -> HighWaters:
    """What ``pack_marks`` wrote; registers of others are passed over.

    Raises:
        InvalidBacking: A value is not of that form.
    """
    head, marks = _unpack(MARKS_PREFIX, uid, registers)
    if head is None:
        return HighWaters(uid, target)
    function, targets, epoch = _three(head)
    routing = RoutingPin(_number(targets), unquote(function)) if function else None
    return HighWaters(uid, target, marks, routing, _number(epoch))


def pack_delivered(delivered: Delivered) -> dict[str, str]:
    """The registers that name the last whole snapshot, by name."""
    head = f"{delivered.number}/{delivered.epoch}/{delivered.delivery_hash}"
    marks = {origin: Mark(index) for origin, index in delivered.ends.entries}
    return _pack(DELIVERED_PREFIX, delivered.uid, head, marks)


def unpack_delivered(uid: ProcessorUid, registers: Mapping[str, str]) -> Delivered | None:
    """What ``pack_delivered`` wrote, or ``None`` if nothing was delivered yet.

    Raises:
        InvalidBacking: A value is not of that form.
    """
    head, marks = _unpack(DELIVERED_PREFIX, uid, registers)
    if head is None:
        return None
    number, epoch, digest = _three(head)
    ends = SourceOffsets.of({origin: mark.index for origin, mark in marks.items()})
    return Delivered(uid, _number(number), digest, ends, _number(epoch))


def _pack(
    prefix: str, uid: ProcessorUid, head: str, marks: Mapping[SourcePartition, Mark]
) -> dict[str, str]:
    values = list(_fill(head, marks))
    longest = max(map(len, values))
    if longest > MAX_VALUE:
        raise InvalidBacking("high-water", f"one mark takes {longest} of {MAX_VALUE} bytes")
    return {f"{prefix}{uid.digest}/{number}": value for number, value in enumerate(values)}


def _fill(head: str, marks: Mapping[SourcePartition, Mark]) -> Iterator[str]:
    """Fill one value after the other; a group that is cut begins anew in the next one."""
    value = head
    for (source, incarnation), group in groupby(sorted(marks.items()), _group_of):
        opening = f"{_GROUP}{_text(source)}/{_text(incarnation)}/"
        joint = opening
        for origin, mark in group:
            entry = f"{origin.partition}={_mark_text(mark)}"
            if len(value) + len(joint) + len(entry) > MAX_VALUE:
                yield value
                value, joint = "", opening
            value += joint + entry
            joint = "+"
    yield value


def _text(name: str) -> str:
    # The one character that needs no escape in a URL and does in a register.
    return quote(name, safe="").replace("~", "%7E")


def _group_of(item: tuple[SourcePartition, Mark]) -> tuple[str, str]:
    return item[0].source, item[0].incarnation


def _mark_text(mark: Mark) -> str:
    return f"{mark.index}.{mark.ordinal}" if mark.ordinal else str(mark.index)


def _unpack(
    prefix: str, uid: ProcessorUid, registers: Mapping[str, str]
) -> tuple[str | None, dict[SourcePartition, Mark]]:
    own = f"{prefix}{uid.digest}/"
    numbers = sorted(int(name[len(own) :]) for name in registers if name.startswith(own))
    if numbers != list(range(len(numbers))):
        raise InvalidBacking("registers", f"{own} has numbers {numbers}")
    if not numbers:
        return None, {}
    marks: dict[SourcePartition, Mark] = {}
    head = ""
    for number in numbers:
        first, *groups = registers[f"{own}{number}"].split(_GROUP)
        head = first if number == 0 else head
        for group in groups:
            marks.update(_group_marks(group))
    return head, marks


def _group_marks(group: str) -> Iterator[tuple[SourcePartition, Mark]]:
    try:
        source, incarnation, entries = group.split("/")
        for entry in entries.split("+"):
            partition, _, text = entry.partition("=")
            index, _, ordinal = text.partition(".")
            origin = SourcePartition(unquote(source), unquote(incarnation), int(partition))
            yield origin, Mark(int(index), int(ordinal or 0))
    except ValueError as error:
        raise InvalidBacking("register", f"{group!r} ({error})") from error


def _three(head: str) -> tuple[str, str, str]:
    parts = head.split("/")
    if len(parts) != 3:
        raise InvalidBacking("register", repr(head))
    return parts[0], parts[1], parts[2]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidBacking("register", f"{text!r} is no number") from error
