"""What becomes of the bytes on a link, and when? No socket, no clock, no thread.

A :class:`Chunk` is what one read of a socket gave: the usual client sends a request in one piece
and it arrives as one chunk, but TCP promises no such thing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Direction(Enum):
    """Which way a chunk travels."""

    TO_SERVICE = "to service"
    TO_CLIENT = "to client"


class Action(Enum):
    """What to do when a chunk is about to be passed on."""

    PASS = "pass"
    """Pass it on."""
    CUT = "cut"
    """Lose it, close every connection and refuse new ones."""
    RESET = "reset"
    """Lose it and reset every connection; new ones are welcome."""
    STALL = "stall"
    """Hold it and everything after it until the link is resumed."""


@dataclass(frozen=True)
class Chunk:
    """Bytes of one connection (numbered from 1) on their way."""

    connection: int
    direction: Direction
    payload: bytes


OnBytes = Callable[[Chunk], Action]
"""Asked once for every chunk, just before it would be passed on."""


def pass_all(chunk: Chunk) -> Action:
    """The hook of a link that only carries."""
    return Action.PASS


def at_match(
    count: int,
    matches: Callable[[bytes], bool],
    action: Action = Action.CUT,
    direction: Direction = Direction.TO_SERVICE,
) -> OnBytes:
    """A hook that acts once: at the ``count``-th chunk of that direction that ``matches``.

    With ``TO_SERVICE`` the service never sees the request; with ``TO_CLIENT`` it has done the work
    and the answer is lost.
    """
    seen = 0

    def on_bytes(chunk: Chunk) -> Action:
        nonlocal seen
        if chunk.direction is not direction or not matches(chunk.payload):
            return Action.PASS
        seen += 1
        return action if seen == count else Action.PASS

    return on_bytes


class DelayLine:
    """A queue whose items come out in order, each a while after it went in.

    Everything that goes in at one moment comes out at one moment, however much it is: the line
    adds latency and takes no bandwidth. An item with a shorter delay waits for those before it.
    """

    def __init__(self) -> None:
        self._items: deque[tuple[float, bytes]] = deque()
        self.size = 0
        """Bytes inside."""

    def push(self, payload: bytes, now: float, delay: float) -> None:
        """Put bytes in; empty ones stand for the end of the stream."""
        self._items.append((now + delay, payload))
        self.size += len(payload)

    def due_at(self) -> float | None:
        """When the first item comes out; None while there is none."""
        return self._items[0][0] if self._items else None

    def pop(self, now: float) -> bytes | None:
        """The first item if its time has come."""
        if not self._items or self._items[0][0] > now:
            return None
        payload = self._items.popleft()[1]
        self.size -= len(payload)
        return payload
