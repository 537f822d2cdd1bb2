"""The identity of a message: who produced it, when, and its part in a transaction. Pure.

A UUID of version 1, read as three things:

- the *producer*: the six bytes of the node, drawn at random, with the multicast bit set so that
  they are no network card's;
- the *clock*: 60 bits of time in steps of 100 ns since 15 October 1582, then 4 bits of counter,
  which are the upper bits of the UUID's clock sequence;
- the *flags*: the lower 10 bits of that sequence.

Clocks of one producer only grow, which is what lets a reader tell a repetition from news.
"""

from __future__ import annotations

from enum import IntEnum

from windrow.journal.message.errors import InvalidUuid

ZERO = bytes(16)
"""No identity: such a message is delivered at once, and each time it is read."""

TICK = 160
"""One microsecond of a clock."""

_EPOCH = 122_192_928_000_000_000  # 100 ns steps from 1582-10-15 to 1970-01-01
_FLAG_BITS = 10
_FLAG_MASK = (1 << _FLAG_BITS) - 1
_MAX_CLOCK = (1 << 64) - 1


class Flags(IntEnum):
    """The part of a message in a transaction."""

    OUTSIDE_TXN = 0
    """Committed by itself."""
    CONTINUE_TXN = 1
    """Pending until its producer acknowledges."""
    ACK_TXN = 2
    """Commits what its producer wrote before, up to this clock; carries no data."""


def producer_id(random: bytes) -> bytes:
    """A producer's six bytes, made of six random ones."""
    if len(random) != 6:
        raise InvalidUuid(random.hex(), f"a producer has 6 bytes, not {len(random)}")
    return bytes((random[0] | 0x01,)) + random[1:]


def build_uuid(producer: bytes, clock: int, flags: int) -> bytes:
    """The sixteen bytes that say all three."""
    if len(producer) != 6 or not producer[0] & 0x01:
        raise InvalidUuid(producer.hex(), "a producer has 6 bytes, the first of them odd")
    if not 0 <= clock <= _MAX_CLOCK or not 0 <= flags <= _FLAG_MASK:
        raise InvalidUuid(f"{clock}/{flags}", "the clock has 64 bits and the flags 10")
    time = clock >> 4
    word = (
        (time & 0xFFFFFFFF) << 32  # time_low
        | (time >> 32 & 0xFFFF) << 16  # time_mid
        | time >> 48  # time_hi
        | 0x1000  # version 1
    )
    sequence = 0x8000 | (clock & 0xF) << _FLAG_BITS | flags
    return word.to_bytes(8, "big") + sequence.to_bytes(2, "big") + producer


def producer_of(uuid: bytes) -> bytes:
    """Who produced the message."""
    return uuid[10:]


def clock_of(uuid: bytes) -> int:
    """When, by its producer's clock."""
    word = int.from_bytes(uuid[:8], "big")
    time = (word & 0x0FFF) << 48 | (word >> 16 & 0xFFFF) << 32 | word >> 32
    return time << 4 | (uuid[8] >> 2 & 0xF)


def flags_of(uuid: bytes) -> int:
    """Its part in a transaction."""
    return (uuid[8] << 8 | uuid[9]) & _FLAG_MASK


def check_uuid(uuid: bytes) -> bytes:
    """The UUID, if it is the zero one or of version 1.

    Raises:
        InvalidUuid: It is neither.
    """
    if len(uuid) != 16:
        raise InvalidUuid(uuid.hex(), f"it has {len(uuid)} bytes")
    if uuid != ZERO and (uuid[6] >> 4 != 1 or uuid[8] >> 6 != 2):
        raise InvalidUuid(uuid.hex(), "it is not of version 1")
    return uuid


class ProducerClock:
    """The clock of one producer. It follows the calendar and never goes back."""

    def __init__(self, unix_time: float = 0.0) -> None:
        self.value = 0
        self.update(unix_time)

    def update(self, unix_time: float) -> None:
        """Move up to the calendar's time, if that is ahead."""
        self.value = max(self.value, clock_at(unix_time))

    def tick(self) -> int:
        """Move on by a microsecond and return the new reading."""
        self.value += TICK
        return self.value


def clock_at(unix_time: float) -> int:
    """What a clock reads at a moment of the calendar."""
    microseconds = int(unix_time * 1_000_000)
    return (microseconds * 10 + _EPOCH) << 4
