"""Which journal of several a key belongs to. Pure.

``modulo`` spreads best and moves almost every key when a journal is added; ``rendezvous`` moves
only the keys that the new journal takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.journal.client.errors import NoJournals

Mapping = Callable[[bytes, Sequence[str]], str]
"""Takes a key and the names of journals, sorted; gives one of them."""

_FNV_OFFSET = 2_166_136_261
_FNV_PRIME = 16_777_619


def fnv1a(key: bytes) -> int:
    """FNV-1a of 32 bits."""
    digest = _FNV_OFFSET
    for byte in key:
        digest = (digest ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return digest


def modulo(key: bytes, journals: Sequence[str]) -> str:
    """The journal at the key's hash, modulo their number."""
    _check(key, journals)
    return journals[fnv1a(key) % len(journals)]


def rendezvous(key: bytes, journals: Sequence[str]) -> str:
    """The journal that the key's hash and its own make the largest number with."""
    _check(key, journals)
    digest = fnv1a(key)
    return max(journals, key=lambda name: digest ^ fnv1a(name.encode()))


def at_random(draw: Callable[[int], int]) -> Mapping:
    """A mapping that ignores the key; ``draw(n)`` gives a number below ``n``."""

    def chosen(key: bytes, journals: Sequence[str]) -> str:
        _check(key, journals)
        return journals[draw(len(journals))]

    return chosen


def _check(key: bytes, journals: Sequence[str]) -> None:
    if not journals:
        raise NoJournals(repr(key))
