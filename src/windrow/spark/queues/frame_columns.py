"""Columns to frames of records, without a step of Python for each record.

What ``encode_records`` writes is made here for all rows of a piece at once: the short parts between
the texts (lengths, numbers, the marks of fields) with numpy, and then Arrow copies parts and texts
one behind the other, row by row, into one block. The other way round is ``frames.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.journal.message.framing import HEADER_LENGTH, MAGIC, MAX_LENGTH
from windrow.spark.columns import HASH
from windrow.spark.targets.rows import row_uuid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windrow.spark.chunks import Piece

    Bytes = NDArray[np.uint8]
    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_UUID, _SEQ, _KEY, _HEADER, _VALUE, _TOPIC, _TIME = (
    1 << 3 | 2,
    2 << 3,
    3 << 3 | 2,
    4 << 3 | 2,
    5 << 3 | 2,
    6 << 3 | 2,
    7 << 3,
)
_HEADER_NAME, _HEADER_VALUE = 1 << 3 | 2, 2 << 3 | 2
_UUID_LENGTH: Final = 16
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_NIBBLES: Final = np.zeros(256, np.uint8)
_NIBBLES[_DIGITS] = np.arange(16)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Some bytes of each row: of every line of a matrix those that are flagged."""

    matrix: Bytes
    flags: Flags

    @property
    def lengths(self) -> Numbers:
        lengths: Numbers = self.flags.sum(axis=1, dtype=np.int64)
        return lengths

    def to_arrow(self) -> pa.Array:
        edges = np.zeros(len(self.matrix) + 1, np.int32)
        np.cumsum(self.lengths, out=edges[1:])
        content = pa.py_buffer(self.matrix[self.flags])
        return pa.Array.from_buffers(
            pa.binary(), len(self.matrix), [None, pa.py_buffer(edges), content]
        )


def encode_piece(piece: Piece, seq: int) -> pa.Buffer | None:
    """The rows of a piece as frames numbered from ``seq``; ``None`` if that needs the long way."""
    rows = piece.rows
    numbers = np.arange(seq, seq + rows.num_rows, dtype=np.int64)
    uuids = _same(np.array([_UUID, _UUID_LENGTH], np.uint8), rows.num_rows), _fixed(_uuids(piece))
    time = _varint_field(_TIME, np.array([piece.facts.time], np.int64))
    texts = [
        *_text_parts(_KEY, rows.column("key"), (*uuids, _varint_field(_SEQ, numbers))),
        *_content_parts(rows),
        pa.scalar(time.matrix[time.flags].tobytes(), pa.binary()),
    ]
    lengths = _lengths(texts, rows.num_rows)
    size = int(lengths.sum()) + HEADER_LENGTH * rows.num_rows
    if piece.facts.time < 0 or lengths.max(initial=0) > MAX_LENGTH or size > np.iinfo(np.int32).max:
        return None
    heads = np.empty((rows.num_rows, HEADER_LENGTH), np.uint8)
    heads[:, : len(MAGIC)] = np.frombuffer(MAGIC, np.uint8)
    heads[:, len(MAGIC) :] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    joined = _joined([_fixed(heads).to_arrow(), *texts])
    return joined.buffers()[2]


def encode_bodies(
    digests: Sequence[str], key: pa.Array, value: pa.Array, headers: pa.Array, topic: pa.Array
) -> pa.Array:
    """Messages as records that have no place yet; in place of an id, their whole delivery hash."""
    raw = np.frombuffer(bytes.fromhex("".join(digests)), np.uint8).reshape(len(digests), -1)
    head = _same(np.array([_UUID, raw.shape[1]], np.uint8), len(digests)), _fixed(raw)
    columns = pa.RecordBatch.from_arrays(
        [key, value, headers, topic], ["key", "value", "headers", "topic"]
    )
    return _joined([*_text_parts(_KEY, key, head), *_content_parts(columns)])


def hex_texts(digests: pa.Array) -> pa.Array:
    """Digests of the same length each, as hexadecimal digits."""
    size = len(digests[0].as_py()) if len(digests) else 0
    raw = np.frombuffer(digests.buffers()[2] or b"", np.uint8, len(digests) * size)
    text = np.empty((len(raw), 2), np.uint8)
    text[:, 0], text[:, 1] = _DIGITS[raw >> 4], _DIGITS[raw & 15]
    edges = np.arange(len(digests) + 1, dtype=np.int32) * (2 * size)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(digests), buffers)


# -- the fields of a record ------------------------------------------------------------------------


def _content_parts(rows: pa.RecordBatch) -> list[Any]:
    """Headers, value and topic, each with what goes before it."""
    parts: list[Any] = []
    if len(rows.column("headers").flatten()):
        parts.append(_header_texts(rows.column("headers")))
    parts += _text_parts(_VALUE, rows.column("value"))
    topic = rows.column("topic").cast(pa.binary())
    if topic.null_count < len(topic):
        parts += _text_parts(_TOPIC, topic, with_empty=False)
    return parts


def _header_texts(headers: pa.Array) -> pa.Array:
    flat = headers.flatten()
    name, value = flat.field(0).cast(pa.binary()), flat.field(1)
    inner = [
        *_text_parts(_HEADER_NAME, name, with_empty=False),
        *_text_parts(_HEADER_VALUE, value),
    ]
    lengths = _lengths(inner, len(flat))
    outer = _joined([_column(_varint_field(_HEADER, lengths, True)), *inner])
    counts = headers.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    edges = np.zeros(len(headers) + 1, np.int32)
    np.cumsum(counts, out=edges[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(edges), outer), b"")


def _text_parts(
    tag: int, column: pa.Array, before: Sequence[_Parts] = (), with_empty: bool = True
) -> list[Any]:
    """A field of bytes: its mark and length, where it is there, and then the bytes.

    Of some fields an empty one is the same as none, and is left out.
    """
    lengths = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    head = _varint_field(tag, lengths.astype(np.int64), with_empty)
    if column.null_count:
        head.flags[column.is_null().to_numpy(zero_copy_only=False)] = False
    return [_column(*before, head), column]


def _column(*parts: _Parts) -> pa.Array:
    """One column of several parts."""
    matrix = np.concatenate([part.matrix for part in parts], axis=1)
    flags = np.concatenate([part.flags for part in parts], axis=1)
    return _Parts(matrix, flags).to_arrow()


def _varint_field(tag: int, numbers: Numbers, with_zero: bool = False) -> _Parts:
    """A mark and a number; a number that is 0 is left out, unless it is a length."""
    groups = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    matrix = np.empty((len(numbers), 1 + groups), np.uint8)
    flags = np.ones((len(numbers), 1 + groups), np.bool_)
    matrix[:, 0] = tag
    for place in range(groups):
        rest = numbers >> (7 * place)
        more = rest > 0x7F
        matrix[:, 1 + place] = (rest & 0x7F).astype(np.uint8) | (more.astype(np.uint8) << 7)
        if place:
            flags[:, 1 + place] = rest > 0
    if not with_zero:
        flags[numbers == 0] = False
    return _Parts(matrix, flags)


def _fixed(matrix: Bytes) -> _Parts:
    return _Parts(matrix, np.ones(matrix.shape, np.bool_))


def _same(line: Bytes, count: int) -> _Parts:
    return _fixed(np.broadcast_to(line, (count, len(line))))


# -- columns of texts ------------------------------------------------------------------------------


def _lengths(texts: Sequence[Any], count: int) -> Numbers:
    """How long the texts of each row are together."""
    total = np.zeros(count, np.int64)
    for text in texts:
        if isinstance(text, pa.Scalar):
            total += len(text.as_py())
        else:
            total += pc.binary_length(text).fill_null(0).to_numpy(zero_copy_only=False)
    return total


def _joined(texts: Sequence[Any]) -> pa.Array:
    return pc.binary_join_element_wise(
        *texts, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )


# -- ids -------------------------------------------------------------------------------------------


def _uuids(piece: Piece) -> Bytes:
    """``row_uuid`` of every row: the begin of its hash, or made of it and of the ordinal."""
    hashes = piece.rows.column(HASH)
    count, size = len(hashes), 2 * _UUID_LENGTH
    begins = pc.utf8_slice_codeunits(hashes, 0, size)
    if not pc.all(pc.equal(pc.binary_length(begins), size)).as_py():
        return _listed_uuids(hashes.to_pylist(), piece.ordinals.tolist())
    text = np.frombuffer(begins.buffers()[2] or b"", np.uint8, count * size).reshape(count, size)
    uuids: Bytes = _NIBBLES[text[:, 0::2]] * np.uint8(16) + _NIBBLES[text[:, 1::2]]
    further = np.flatnonzero(piece.ordinals)
    if len(further):
        digests = hashes.take(pa.array(further)).to_pylist()
        uuids[further] = _listed_uuids(digests, piece.ordinals[further].tolist())
    return uuids


def _listed_uuids(digests: Sequence[str], ordinals: Sequence[int]) -> Bytes:
    listed = b"".join(map(row_uuid, digests, ordinals))
    return np.frombuffer(listed, np.uint8).reshape(-1, _UUID_LENGTH)
