"""Which target partition does a row go to? Pinned, so that a replay sends it there again.

A row that moved on a replay would meet another high-water: dropped where it is past the row, or
doubled where it is not. So a snapshot pins the number of targets and the version of the function,
and is finished with them, whatever the configuration says by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windrow.graph.delivery_errors import InvalidBacking, UnknownRouting
from windrow.graph.positions import Position
from windrow.journal.client.mapping import fnv1a

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(key: bytes) -> int:
    """The 32 bits that Kafka's Java client makes of a key."""
    length = len(key)
    digest = _SEED ^ length
    whole = length & ~3
    for begin in range(0, whole, 4):
        word = int.from_bytes(key[begin : begin + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        digest = digest * _MULTIPLIER & _MASK ^ word
    if whole < length:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    digest = (digest ^ digest >> 13) * _MULTIPLIER & _MASK
    return digest ^ digest >> 15


def _by_murmur2(key: bytes, targets: int) -> int:
    """As Kafka's Java client does: the sign is cut off, not taken away."""
    return (murmur2(key) & 0x7FFFFFFF) % targets


def _by_fnv1a(key: bytes, targets: int) -> int:
    """As the journal client's modulo mapping does."""
    return fnv1a(key) % targets


_FUNCTIONS: dict[str, Callable[[bytes, int], int]] = {
    "murmur2-1": _by_murmur2,
    "fnv1a-1": _by_fnv1a,
}


@dataclass(frozen=True, slots=True)
class RoutingPin:
    """The number of targets and the version of the function, as a snapshot keeps them."""

    targets: int = 1
    function: str = "murmur2-1"

    def __post_init__(self) -> None:
        if self.targets < 1:
            raise InvalidBacking("routing", f"it has {self.targets} targets")

    def __str__(self) -> str:
        return f"{self.function} over {self.targets}"

    def to_json(self) -> list[Any]:
        """Compact."""
        return [self.targets, self.function]

    @classmethod
    def from_json(cls, value: object) -> RoutingPin:
        """What ``to_json`` wrote."""
        match value:
            case [int() as targets, str() as function]:
                return cls(targets, function)
        raise InvalidBacking("routing", repr(value))

    def route(self, key: bytes | None, position: Position) -> int:
        """The target of a row: by its key, or around by its position if it has none.

        Raises:
            UnknownRouting: The function is of another version of Windrow.
        """
        function = _FUNCTIONS.get(self.function)
        if function is None:
            raise UnknownRouting(self.function, tuple(_FUNCTIONS))
        if key is None:
            return (position.partition + position.index + position.ordinal) % self.targets
        return function(key, self.targets)


SINGLE_TARGET = RoutingPin()
"""Everything goes to the one partition there is."""
