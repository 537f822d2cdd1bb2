"""Frames of records to columns, without a step of Python for each record.

A block of content is looked at as one array of bytes. Every step is taken for all records of the
block at once: where frames begin, then field after field in the order in which protobuf writes
them. Keys and values never become Python objects: Arrow copies them from the block.

That is right for what every writer of ours writes, and it is checked: whoever's bytes are in
another order, or hold what looks like the begin of a frame, are read the long way, record by
record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from windrow.journal.message.framing import HEADER_LENGTH, MAGIC, FixedUnframer, Frame
from windrow.journal.message.record import Record, decode_frame
from windrow.spark.columns import message_schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_PADDING: Final = bytes(16)
"""So that looking one varint ahead never leaves the block."""
_UUID, _SEQ, _KEY, _HEADER, _VALUE, _TOPIC, _TIME, _CONTROL = (
    1 << 3 | 2,
    2 << 3,
    3 << 3 | 2,
    4 << 3 | 2,
    5 << 3 | 2,
    6 << 3 | 2,
    7 << 3,
    15 << 3 | 2,
)
_HEADER_NAME, _HEADER_VALUE = 1 << 3 | 2, 2 << 3 | 2
CONTENT_COLUMNS: Final = ("key", "value", "headers", "topic", "time")


class _Unusual(Exception):
    """These bytes have to be read the long way."""


@dataclass(frozen=True, slots=True)
class Block:
    """The records of some content.

    Attributes:
        seqs: The number of each record, control frames left out.
        begins: Where the frame of each begins in the journal.
        end: Where the last whole frame ends; what lies behind is to be fed again.
        columns: Makes ``CONTENT_COLUMNS`` of all records; records that are passed by need none.
    """

    seqs: Numbers
    begins: Numbers
    end: int
    columns: Callable[[], tuple[pa.Array, ...]]

    def __len__(self) -> int:
        return len(self.seqs)


def decode_block(content: bytes, offset: int) -> Block:
    """The records whose frames are whole in this content, which begins at an offset.

    Raises:
        InvalidRecord: A frame holds no record.
    """
    try:
        return _decode_at_once(content, offset)
    except _Unusual:
        return _decode_one_by_one(content, offset)


def decode_bodies(bodies: pa.Array) -> tuple[pa.Array, tuple[pa.Array, ...]]:
    """Records without frames, one in each value: what they are known by, ``CONTENT_COLUMNS``.

    Raises:
        InvalidRecord: A value is no record.
    """
    edges = np.frombuffer(bodies.buffers()[1], np.int32, len(bodies) + 1, bodies.offset * 4)
    padded = pa.py_buffer(bodies.buffers()[2].to_pybytes() + _PADDING)
    begins, ends = edges[:-1].astype(np.int64), edges[1:].astype(np.int64)
    try:
        fields = _Fields(np.frombuffer(padded, np.uint8), begins, ends)
        return fields.uuids(padded), fields.columns(padded)
    except _Unusual:
        frames = [Frame(body, 0, len(body)) for body in bodies.to_pylist()]
        records = [each for each in map(decode_frame, frames) if isinstance(each, Record)]
        return pa.array([each.uuid for each in records], pa.binary()), _columns_of(records)


# -- all at once -----------------------------------------------------------------------------------


def _decode_at_once(content: bytes, offset: int) -> Block:
    padded = content + _PADDING
    data = np.frombuffer(padded, np.uint8)
    begins, ends = _frames(data, len(content))
    if not len(begins):
        return Block(begins, begins, offset, partial(_columns_of, []))
    fields = _Fields(data, begins + HEADER_LENGTH, ends)
    rows = fields.data_rows
    return Block(
        fields.seq[rows],
        begins[rows] + offset,
        int(ends[-1]) + offset,
        partial(_columns_at_once, fields, padded, len(content), offset),
    )


def _columns_at_once(
    fields: _Fields, padded: bytes, size: int, offset: int
) -> tuple[pa.Array, ...]:
    try:
        return fields.columns(pa.py_buffer(padded))
    except _Unusual:
        return _decode_one_by_one(padded[:size], offset).columns()


def _frames(data: Bytes, size: int) -> tuple[Numbers, Numbers]:
    """Begin and end of each whole frame.

    Raises:
        _Unusual: Something lies between frames, or a message holds what looks like one's begin.
    """
    if size < HEADER_LENGTH:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    begins = np.flatnonzero(data[: size - HEADER_LENGTH + 1] == MAGIC[0])
    for place in range(1, len(MAGIC)):
        begins = begins[data[begins + place] == MAGIC[place]]
    lengths = np.zeros(len(begins), np.int64)
    for place in range(4):
        lengths |= data[begins + len(MAGIC) + place].astype(np.int64) << (8 * place)
    ends = begins + HEADER_LENGTH + lengths
    if not len(begins) or begins[0] != 0 or not np.array_equal(ends[:-1], begins[1:]):
        raise _Unusual
    whole = ends <= size
    return begins[whole], ends[whole]


class _Fields:
    """Where every field of every frame lies, found in one pass over the fields' numbers."""

    def __init__(self, data: Bytes, at: Numbers, ends: Numbers) -> None:
        self._data, self._at, self._ends = data, at.copy(), ends
        self._uuid = self._bytes(_UUID)
        self.seq = self._number(_SEQ)
        self._key = self._bytes(_KEY)
        self._headers = self._repeated(_HEADER)
        self._value = self._bytes(_VALUE)
        self._topic = self._bytes(_TOPIC)
        self._time = self._number(_TIME)
        control = self._bytes(_CONTROL)
        if not np.array_equal(self._at, self._ends):
            raise _Unusual
        self.data_rows = np.flatnonzero(~control[2])

    def columns(self, content: pa.Buffer) -> tuple[pa.Array, ...]:
        """``CONTENT_COLUMNS`` of the frames that are data."""
        rows = self.data_rows
        return (
            _binary(content, *self._key, rows),
            _binary(content, *self._value, rows),
            self._header_column(content),
            _text(_binary(content, *self._topic, rows)),
            pa.array(self._time[rows], pa.int64()).cast(message_schema().field("time").type),
        )

    def uuids(self, content: pa.Buffer) -> pa.Array:
        """What the frames that are data are known by."""
        begins, ends, _ = self._uuid
        return _binary(content, begins, ends, None, self.data_rows)

    # -- one field of all frames ---------------------------------------------------------------

    def _has(self, tag: int) -> Flags:
        has: Flags = (self._data[self._at] == tag) & (self._at < self._ends)
        return has

    def _number(self, tag: int) -> Numbers:
        rows = np.flatnonzero(self._has(tag))
        found = np.zeros(len(self._at), np.int64)
        found[rows], self._at[rows] = self._varints(self._at[rows] + 1)
        return found

    def _bytes(self, tag: int) -> tuple[Numbers, Numbers, Flags]:
        """Begin and end of a field of bytes, and who has it."""
        has = self._has(tag)
        rows = slice(None) if has.all() else np.flatnonzero(has)
        length, begin = self._varints(self._at[rows] + 1)
        begins, ends = self._at.copy(), self._at.copy()
        begins[rows], ends[rows] = begin, begin + length
        if (length < 0).any() or (ends > self._ends).any():
            raise _Unusual
        self._at = ends.copy()
        return begins, ends, has

    def _repeated(self, tag: int) -> tuple[Numbers, Numbers, Numbers]:
        """Row, begin and end of a field that may be there several times, by row."""
        rounds: list[tuple[Numbers, Numbers, Numbers]] = []
        while self._has(tag).any():
            begins, ends, has = self._bytes(tag)
            rows = np.flatnonzero(has)
            rounds.append((rows, begins[rows], ends[rows]))
        if not rounds:
            none = np.zeros(0, np.int64)
            return none, none, none
        row, begin, end = (np.concatenate(part) for part in zip(*rounds, strict=True))
        order = np.argsort(row, kind="stable")
        return row[order], begin[order], end[order]

    def _varints(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """The numbers at these places, and where each ends."""
        first = self._data[at]
        found = (first & 0x7F).astype(np.int64)
        behind = at + 1
        more = np.flatnonzero(first & 0x80)
        shift = 7
        while len(more):
            if shift > 63:
                raise _Unusual
            here = behind[more]
            part = self._data[np.minimum(here, len(self._data) - 1)]
            found[more] |= (part & 0x7F).astype(np.int64) << shift
            behind[more] = here + 1
            more = more[(part & 0x80) != 0]
            shift += 7
        return found, behind

    # -- headers -------------------------------------------------------------------------------

    def _header_column(self, content: pa.Buffer) -> pa.Array:
        row, begin, end = self._headers
        kind = message_schema().field("headers").type
        counts = np.bincount(row, minlength=len(self._at))[self.data_rows]
        offsets = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        if not len(row):
            return pa.ListArray.from_arrays(pa.array(offsets), pa.nulls(0, kind.value_type), kind)
        inner = _Header(self._data, begin, end)
        every = np.arange(len(row))
        pairs = pa.StructArray.from_arrays(
            [
                _text(_binary(content, inner.name[0], inner.name[1], None, every)),
                _binary(content, *inner.value, every),
            ],
            fields=list(kind.value_type),
        )
        return pa.ListArray.from_arrays(pa.array(offsets), pairs, kind)


class _Header(_Fields):
    """The fields of headers: a name, and a value or none."""

    def __init__(self, data: Bytes, at: Numbers, ends: Numbers) -> None:
        self._data, self._at, self._ends = data, at.copy(), ends
        self.name = self._bytes(_HEADER_NAME)
        self.value = self._bytes(_HEADER_VALUE)
        if not np.array_equal(self._at, self._ends):
            raise _Unusual


def _binary(
    content: pa.Buffer, begins: Numbers, ends: Numbers, has: Flags | None, rows: Numbers
) -> pa.Array:
    """The bytes between these places, one value each; null where there is none.

    Arrow is shown the whole content as values and what lies between them in turn, and takes every
    second one: it copies them by itself, and nothing else is copied.
    """
    edges = np.zeros(2 * len(begins) + 1, np.int32)
    edges[1::2], edges[2::2] = begins, ends
    every = pa.Array.from_buffers(
        pa.binary(), 2 * len(begins), [None, pa.py_buffer(edges), content]
    )
    wanted = 2 * rows + 1
    if has is None or has[rows].all():
        return every.take(pa.array(wanted))
    return every.take(pa.array(wanted, mask=~has[rows]))


def _text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise _Unusual from error


# -- the long way ----------------------------------------------------------------------------------


def _decode_one_by_one(content: bytes, offset: int) -> Block:
    unframer = FixedUnframer(offset)
    records: list[tuple[Frame, Record]] = []
    for frame in unframer.feed(content):
        decoded = decode_frame(frame)
        if isinstance(decoded, Record):
            records.append((frame, decoded))
    return Block(
        np.array([record.seq for _, record in records], np.int64),
        np.array([frame.begin for frame, _ in records], np.int64),
        unframer.offset,
        partial(_columns_of, [record for _, record in records]),
    )


def _columns_of(records: list[Record]) -> tuple[pa.Array, ...]:
    values: dict[str, list[Any]] = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "headers": [list(record.headers) for record in records],
        "topic": [record.topic or None for record in records],
        "time": [record.time for record in records],
    }
    schema = message_schema()
    return tuple(pa.array(values[name], schema.field(name).type) for name in CONTENT_COLUMNS)
