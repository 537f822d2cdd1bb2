"""The commit record of a durable spool, and the slot of the file it is written into.

A slot is torn if the machine stops in the middle of writing it, so it carries a digest of itself:
one that does not verify was never written whole. What it says of the content (end and SHA-1) lets
recovery tell as well whether the content behind it arrived.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct

from windrow.journal.fragment import Fragment
from windrow.journal.fragments.errors import RegistersTooLarge
from windrow.journal.labels import EMPTY, Label, LabelSet
from windrow.journal.spec import Codec

SLOT_SIZE = 16 * 1024
"""Four pages: room for registers, and never a page shared by both slots."""

_MAGIC = b"windrow1"
_DIGEST_SIZE = 16
_FRAME = Struct(f">8sI{_DIGEST_SIZE}s")
BODY_LIMIT = SLOT_SIZE - _FRAME.size


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """All that a spool must not forget: what it holds, and under which term."""

    fragment: Fragment
    registers: LabelSet = EMPTY
    create_revision: int = 0
    term: int = 0
    agreed_term: int = 0
    first_append_time: float = 0.0
    is_sealed: bool = False
    """Whether a later file of the journal is durable, and this one only waits for its upload."""
    sequence: int = 0
    """Grows with every record of a file, which sets it: of two slots the larger is the later."""
    acknowledged_end: int = 0
    """Everything below it was known to be acknowledged when the record was written."""


def encode_slot(record: CommitRecord) -> bytes:
    """The bytes to write at the start of a slot.

    Raises:
        RegistersTooLarge: They do not fit.
    """
    fragment = record.fragment
    body = json.dumps(
        {
            "sequence": record.sequence,
            "journal": fragment.journal,
            "begin": fragment.begin,
            "end": fragment.end,
            "sum": fragment.sum.hex(),
            "codec": int(fragment.codec),
            "registers": [[label.name, label.value] for label in record.registers.labels],
            "create_revision": record.create_revision,
            "term": record.term,
            "agreed_term": record.agreed_term,
            "first_append_time": record.first_append_time,
            "is_sealed": record.is_sealed,
            "acknowledged_end": record.acknowledged_end,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    if len(body) > BODY_LIMIT:
        raise RegistersTooLarge(fragment.journal, len(body), BODY_LIMIT)
    return _FRAME.pack(_MAGIC, len(body), _digest(body)) + body


def decode_slot(slot: bytes) -> CommitRecord | None:
    """The record of a slot, or None if it was never written, or not whole."""
    if len(slot) < _FRAME.size:
        return None
    magic, length, digest = _FRAME.unpack_from(slot)
    body = slot[_FRAME.size : _FRAME.size + length]
    if magic != _MAGIC or len(body) != length or _digest(body) != digest:
        return None
    fields = json.loads(body)
    return CommitRecord(
        sequence=fields["sequence"],
        fragment=Fragment(
            journal=fields["journal"],
            begin=fields["begin"],
            end=fields["end"],
            sum=bytes.fromhex(fields["sum"]),
            codec=Codec(fields["codec"]),
        ),
        registers=LabelSet(tuple(Label(name, value) for name, value in fields["registers"])),
        create_revision=fields["create_revision"],
        term=fields["term"],
        agreed_term=fields["agreed_term"],
        first_append_time=fields["first_append_time"],
        is_sealed=fields["is_sealed"],
        acknowledged_end=fields["acknowledged_end"],
    )


def check_fits(journal: str, registers: LabelSet) -> None:
    """Find out before anything changes whether a record with these registers can be written.

    Raises:
        RegistersTooLarge: It could not.
    """
    largest = 2**64 - 1
    fragment = Fragment(journal, largest, largest, codec=Codec.NONE)
    encode_slot(
        CommitRecord(
            fragment, registers, largest, largest, largest, largest / 7, True, largest, largest
        )
    )


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST_SIZE).digest()
