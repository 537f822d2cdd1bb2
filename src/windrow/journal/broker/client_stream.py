"""What has a streaming client sent so far, and may it send this? Pure.

Content, an empty message as the mark of the commit, and the end of the stream: in this order, and
nothing else. A stream that ends without the mark was given up by its client.
"""

from __future__ import annotations

import hashlib

from windrow.journal.broker.group import (
    BARRIER_ONLY,
    REGISTERS_NEED_BYTES,
    Conditions,
    Verdict,
    WriteHead,
)
from windrow.journal.fragment import ZERO_SUM, Fragment
from windrow.journal.status import Status

NO_COMMIT_MARK = "append stream: unexpected EOF"
BEHIND_COMMIT_MARK = "expected EOF after empty Content chunk"


class ClientStream:
    """The content of one append that is not received as a whole before it begins."""

    def __init__(self, conditions: Conditions) -> None:
        self.length = 0
        self._conditions = conditions
        self._chunks = 0
        self._is_marked = False
        self._sum = hashlib.sha1(usedforsecurity=False)

    def on_chunk(self, content: bytes, head: WriteHead) -> Verdict | None:
        """Take a chunk; returns why the append fails, if it does."""
        self._chunks += 1
        if self._is_marked:
            return Verdict(Status.OK, head.registers, error=BEHIND_COMMIT_MARK)
        if not content:
            self._is_marked = True
            return None
        if not head.is_writable or self._conditions.suspend in BARRIER_ONLY:
            return Verdict(Status.NOT_ALLOWED, head.registers)
        self._sum.update(content)
        self.length += len(content)
        return None

    def on_end(self, head: WriteHead) -> Verdict:
        """The client closed its side: what the append is answered, if it commits."""
        registers = head.registers
        if not self._is_marked:
            return Verdict(Status.OK, registers, error=NO_COMMIT_MARK)
        if self.length == 0 and self._conditions.changes_registers:
            return Verdict(Status.OK, registers, error=REGISTERS_NEED_BYTES)
        if self.length:
            registers = self._conditions.registers_after(registers)
        commit = self._fragment(head)
        return Verdict(Status.OK, registers, commit, total_chunks=self._chunks)

    def _fragment(self, head: WriteHead) -> Fragment:
        digest = self._sum.digest() if self.length else ZERO_SUM
        return Fragment(head.journal, head.offset, head.offset + self.length, digest, head.codec)
