"""The envelope of every journal: what a relay writes and a graph reads.

``Record`` and ``Control`` are plain values. On the wire they are the protobuf message
``windrow.Record`` behind a fixed frame; a frame that carries a ``Control`` steers and is no data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from windrow.extras import require
from windrow.journal.message.errors import InvalidRecord
from windrow.journal.message.framing import (
    FixedUnframer,
    Frame,
    Unframer,
    fixed_frame,
)

if TYPE_CHECKING:
    from windrow.journal.wire import record_pb2

Header = tuple[str, bytes | None]


@dataclass(slots=True)
class Record:
    """An event in a journal.

    A value of ``None`` is a tombstone. ``seq`` is the record's place among the records of its
    journal, without gaps under sequenced appends; ``time`` is microseconds since 1970.
    """

    uuid: bytes = b""
    seq: int = 0
    key: bytes | None = None
    # Left out of the text form, which ends up in logs: they are the customers' data.
    headers: tuple[Header, ...] = field(default=(), repr=False)
    value: bytes | None = field(default=None, repr=False)
    topic: str = ""
    time: int = 0


@dataclass(frozen=True, slots=True)
class Control:
    """What heads a sequenced append, or hands a journal to a new owner.

    ``count`` records follow it, numbered from ``seq``. On a hand-over ``owner`` names who writes
    from here on.
    """

    writer: str = ""
    batch: str = ""
    previous: str = ""
    count: int = 0
    seq: int = 0
    owner: str = ""


@cache
def _message() -> Any:
    require("google.protobuf")
    from windrow.journal.wire import record_pb2

    return record_pb2.Record


def encode_record(record: Record) -> bytes:
    """A record as a frame."""
    return fixed_frame(_serialize(_message(), record, record.seq))


def encode_records(records: Iterable[Record], first_seq: int | None = None) -> bytes:
    """Many records as frames, one behind the other; numbered from ``first_seq`` if it is given."""
    message = _message()
    if first_seq is None:
        return b"".join([fixed_frame(_serialize(message, r, r.seq)) for r in records])
    numbered = enumerate(records, first_seq)
    return b"".join([fixed_frame(_serialize(message, r, seq)) for seq, r in numbered])


def encode_control(control: Control) -> bytes:
    """A control frame."""
    message: record_pb2.Record = _message()()
    message.control.writer = control.writer
    message.control.batch = control.batch
    message.control.previous = control.previous
    message.control.count = control.count
    message.control.seq = control.seq
    message.control.owner = control.owner
    message.control.SetInParent()
    return fixed_frame(message.SerializeToString())


def _serialize(message: Any, record: Record, seq: int) -> bytes:
    # Fields that are None stay absent: protobuf takes None in a constructor for "not given".
    built = message(
        uuid=record.uuid,
        seq=seq,
        key=record.key,
        value=record.value,
        topic=record.topic,
        time=record.time,
    )
    for name, value in record.headers:
        built.headers.add(name=name, value=value)
    serialized: bytes = built.SerializeToString()
    return serialized


def decode_frame(frame: Frame) -> Record | Control:
    """The record of a frame, or what it steers.

    Raises:
        InvalidRecord: It holds neither.
    """
    return _decode(_message().FromString, frame)


def decode_records(content: bytes, offset: int = 0) -> list[Record]:
    """The records of whole frames; those that steer are left out."""
    unframer = FixedUnframer(offset)
    records = [record for _, record in unframe_records(unframer, content)]
    unframer.finish()
    return records


def unframe_records(unframer: Unframer, content: bytes) -> Iterator[tuple[Frame, Record]]:
    """The data records that are complete with this content, each with its frame."""
    parse = _message().FromString
    for frame in unframer.feed(content):
        decoded = _decode(parse, frame)
        if type(decoded) is Record:
            yield frame, decoded


def _decode(parse: Any, frame: Frame) -> Record | Control:
    try:
        message = parse(frame.payload)
    except Exception as error:
        raise InvalidRecord(frame.begin, frame.end, str(error)) from error
    if message.HasField("control"):
        control = message.control
        return Control(
            control.writer,
            control.batch,
            control.previous,
            control.count,
            control.seq,
            control.owner,
        )
    # Asking whether a field is there costs more than the field: ask only where it looks empty.
    key, value, headers = message.key, message.value, message.headers
    if not key and not message.HasField("key"):
        key = None
    if not value and not message.HasField("value"):
        value = None
    return Record(
        message.uuid,
        message.seq,
        key,
        _headers_of(headers) if headers else (),
        value,
        message.topic,
        message.time,
    )


def _headers_of(headers: Any) -> tuple[Header, ...]:
    return tuple([(h.name, h.value if h.HasField("value") else None) for h in headers])
