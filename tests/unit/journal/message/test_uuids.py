from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.message.errors import InvalidUuid
from windrow.journal.message.uuids import (
    TICK,
    ZERO,
    Flags,
    ProducerClock,
    build_uuid,
    check_uuid,
    clock_at,
    clock_of,
    flags_of,
    producer_id,
    producer_of,
)

PRODUCER = bytes.fromhex("0111 2233 4455")


@given(
    clock=st.integers(0, 2**64 - 1),
    flags=st.integers(0, 1023),
    random=st.binary(min_size=6, max_size=6),
)
def test_producer_clock_and_flags_come_back_from_a_uuid(
    clock: int, flags: int, random: bytes
) -> None:
    producer = producer_id(random)
    built = build_uuid(producer, clock, flags)
    assert (producer_of(built), clock_of(built), flags_of(built)) == (producer, clock, flags)
    parsed = uuid.UUID(bytes=built)
    assert parsed.version == 1
    assert parsed.variant == uuid.RFC_4122
    assert parsed.time == clock >> 4
    assert check_uuid(built) == built


def test_the_parts_lie_where_version_1_has_them() -> None:
    built = build_uuid(PRODUCER, 0x1122334455667788, Flags.ACK_TXN)
    # time = clock >> 4 = 0x112233445566778; low 32 bits, middle 16, high 12 behind the version.
    assert (
        built.hex() == "45566778" + "2334" + "1112" + f"{0x8000 | 8 << 10 | 2:04x}" + PRODUCER.hex()
    )


def test_a_clock_reads_hundreds_of_nanoseconds_since_1582_and_four_bits_more() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC) - datetime(1582, 10, 15, tzinfo=UTC)
    assert clock_at(0) == int(epoch.total_seconds()) * 10_000_000 << 4
    assert clock_at(0.000001) - clock_at(0) == TICK


def test_a_clock_never_goes_back() -> None:
    clock = ProducerClock(1_700_000_000)
    first = clock.tick()
    clock.update(1_600_000_000)
    assert clock.tick() == first + TICK
    clock.update(1_800_000_000)
    assert clock.tick() == clock_at(1_800_000_000) + TICK


def test_a_producer_is_no_network_card() -> None:
    assert producer_id(bytes(6)) == b"\x01" + bytes(5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"short", "5 bytes"),
        (uuid.UUID(int=0x12345678123441238123456789ABCDEF).bytes, "version 1"),
    ],
)
def test_what_is_no_uuid_of_version_1_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidUuid, match=reason):
        check_uuid(text)


def test_no_identity_is_one_too() -> None:
    assert check_uuid(ZERO) == ZERO


@pytest.mark.parametrize(
    ("producer", "clock", "flags"),
    [(b"\x02" + bytes(5), 1, 0), (PRODUCER, -1, 0), (PRODUCER, 1, 1024)],
)
def test_a_part_out_of_its_range_is_refused(producer: bytes, clock: int, flags: int) -> None:
    with pytest.raises(InvalidUuid):
        build_uuid(producer, clock, flags)
