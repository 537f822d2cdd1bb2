from __future__ import annotations

from collections import Counter

import pytest

from windrow.journal.client.errors import NoJournals
from windrow.journal.client.mapping import at_random, fnv1a, modulo, rendezvous

JOURNALS = [f"orders/part-{n:03d}" for n in range(8)]


@pytest.mark.parametrize(
    ("key", "digest"),
    [
        (b"", 0x811C9DC5),
        (b"a", 0xE40C292C),
        (b"b", 0xE70C2DE5),
        (b"foobar", 0xBF9CF968),
        (b"\x00", 0x050C5D1F),
        (b"\xff\x00\x00\x01", 0xC48FB86D),
    ],
)
def test_the_hash_is_fnv_1a_of_32_bits(key: bytes, digest: int) -> None:
    assert fnv1a(key) == digest


@pytest.mark.parametrize(
    ("key", "journal"),
    [(b"", 5), (b"a", 4), (b"foobar", 0), (b"order-1", 5), (b"order-2", 4), (b"\x00", 7)],
)
def test_modulo_sends_a_key_where_it_always_went(key: bytes, journal: int) -> None:
    """Another answer would send the records of a key to two journals over an upgrade."""
    assert modulo(key, JOURNALS) == JOURNALS[journal]


@pytest.mark.parametrize(
    ("key", "journal"),
    [(b"", 1), (b"a", 4), (b"foobar", 7), (b"order-1", 3), (b"order-2", 0), (b"\x00", 5)],
)
def test_rendezvous_sends_a_key_where_it_always_went(key: bytes, journal: int) -> None:
    assert rendezvous(key, JOURNALS) == JOURNALS[journal]


def test_rendezvous_moves_only_keys_that_the_new_journal_takes() -> None:
    keys = [f"order-{n}".encode() for n in range(2000)]
    added = "orders/part-008"
    for key in keys:
        before, after = rendezvous(key, JOURNALS), rendezvous(key, [*JOURNALS, added])
        assert after in (before, added)


def test_modulo_spreads_keys_evenly() -> None:
    chosen = Counter(modulo(f"order-{n}".encode(), JOURNALS) for n in range(8000))
    assert all(850 < count < 1150 for count in chosen.values())


def test_a_random_mapping_takes_whatever_is_drawn() -> None:
    mapping = at_random(lambda count: count - 1)
    assert mapping(b"any", JOURNALS) == JOURNALS[-1]


@pytest.mark.parametrize("mapping", [modulo, rendezvous, at_random(lambda count: 0)])
def test_without_a_journal_there_is_nothing_to_map_to(mapping: object) -> None:
    with pytest.raises(NoJournals, match="selector"):
        mapping(b"key", [])  # type: ignore[operator]
