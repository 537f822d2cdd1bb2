"""A link to PostgreSQL that knows which statement is on it, and can break right there.

The usual client sends a statement's text once and then calls it by a name, so the names are
followed: a strike finds the thousandth execution as well as the first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Literal

from windrow.embedded.link import Link
from windrow.embedded.link_rules import Action, Chunk, Direction

Lost = Literal["request", "answer"]

# The protocol number, or one of the two requests for an encryption that nobody offers here.
_WITHOUT_TYPE = (b"\x00\x03", b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30")


class SqlLink:
    """What is asked about every chunk of a link; strikes once for each ``strike_at``."""

    def __init__(self) -> None:
        self.struck = threading.Event()
        self._armed: tuple[bytes, Lost, Action] | None = None
        self._awaiting_answer: int | None = None
        self._names: dict[tuple[int, bytes], bytes] = {}

    def strike_at(self, text: str, lost: Lost, action: Action = Action.RESET) -> None:
        """Lose the next statement with this text in it, or its answer; ``struck`` says when."""
        self.struck.clear()
        self._awaiting_answer = None
        self._armed = text.encode(), lost, action

    def __call__(self, chunk: Chunk) -> Action:
        if chunk.direction is Direction.TO_CLIENT:
            return self._strike() if chunk.connection == self._awaiting_answer else Action.PASS
        statements = list(self._statements(chunk))
        if self._armed is None or not any(self._armed[0] in text for text in statements):
            return Action.PASS
        if self._armed[1] == "request":
            return self._strike()
        self._awaiting_answer = chunk.connection
        return Action.PASS

    def _strike(self) -> Action:
        assert self._armed is not None
        action = self._armed[2]
        self._armed = self._awaiting_answer = None
        self.struck.set()
        return action

    def _statements(self, chunk: Chunk) -> Iterator[bytes]:
        """The texts that this chunk has executed, by themselves or by their names."""
        for kind, body in _messages(chunk.payload):
            if kind == b"Q":
                yield body
            elif kind == b"P":
                name, text, _ = body.split(b"\0", 2)
                self._names[chunk.connection, name] = text
            elif kind == b"B":
                _, name, _ = body.split(b"\0", 2)
                yield self._names.get((chunk.connection, name), b"")


def _messages(payload: bytes) -> Iterator[tuple[bytes, bytes]]:
    if payload[4:6] == _WITHOUT_TYPE[0] or payload[4:8] in _WITHOUT_TYPE[1:]:
        return  # the first message of a connection
    start = 0
    while start + 5 <= len(payload):
        length = int.from_bytes(payload[start + 1 : start + 5])
        yield payload[start : start + 1], payload[start + 5 : start + 1 + length]
        start += 1 + length


def start_sql_link(port: int) -> tuple[Link, SqlLink]:
    """A link to the server on that port of the loopback interface."""
    hook = SqlLink()
    return Link.start(("127.0.0.1", port), hook), hook
