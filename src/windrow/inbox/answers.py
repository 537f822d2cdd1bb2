"""What a receiver answered, kept to be given again: the contract of stores, and one in memory."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it was sent.

    Attributes:
        status: Of the answer.
        headers: In their order, as bytes of the wire.
        body: The whole of it; None if it was longer than is kept.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Begun:
    """The request is ours to work on; the token tells our hold from a later one."""

    token: uuid.UUID


@dataclass(frozen=True, slots=True)
class InProgress:
    """Somebody is working on the same request."""


class AnswerStore(Protocol):
    """Where answers are kept, by the key of their request."""

    async def begin(self, key: str, hold: float) -> Begun | Answer | InProgress:
        """Take a request on for so many seconds, or say what has become of it.

        A hold that is over is somebody's who died: the request is taken on again.
        """

    async def finish(self, key: str, token: uuid.UUID, answer: Answer) -> None:
        """Keep the answer; does nothing if another has taken the request on since."""

    async def abandon(self, key: str, token: uuid.UUID) -> None:
        """Let the request be taken on again at once."""


@dataclass(slots=True)
class _Entry:
    token: uuid.UUID
    held_until: float
    began: float
    answer: Answer | None = None


class MemoryAnswers:
    """Answers in this process, which forgets them when it ends: for one small receiver.

    Args:
        retention: Seconds that an answer is kept.
        limit: How many are kept; then the oldest go.
        monotonic: The clock.
    """

    def __init__(
        self,
        retention: float = 86_400.0,
        limit: int = 10_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._retention, self._limit, self._monotonic = retention, limit, monotonic
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def begin(self, key: str, hold: float) -> Begun | Answer | InProgress:
        """Take a request on for so many seconds, or say what has become of it."""
        now = self._monotonic()
        self._forget(now)
        entry = self._entries.get(key)
        if entry is not None and entry.answer is not None:
            return entry.answer
        if entry is not None and now < entry.held_until:
            return InProgress()
        token = uuid.uuid4()
        self._entries[key] = _Entry(token, now + hold, now)
        self._entries.move_to_end(key)
        return Begun(token)

    async def finish(self, key: str, token: uuid.UUID, answer: Answer) -> None:
        """Keep the answer; does nothing if another has taken the request on since."""
        entry = self._entries.get(key)
        if entry is not None and entry.token == token:
            entry.answer = answer

    async def abandon(self, key: str, token: uuid.UUID) -> None:
        """Let the request be taken on again at once."""
        entry = self._entries.get(key)
        if entry is not None and entry.token == token and entry.answer is None:
            del self._entries[key]

    def _forget(self, now: float) -> None:
        """Drop what is too old, and the oldest beyond the limit; never a request at work."""
        while self._entries:
            key, oldest = next(iter(self._entries.items()))
            is_at_work = oldest.answer is None and now < oldest.held_until
            is_too_old = now - oldest.began > self._retention
            if is_at_work or not (is_too_old or len(self._entries) >= self._limit):
                return
            del self._entries[key]
