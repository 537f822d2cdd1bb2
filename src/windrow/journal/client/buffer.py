"""What waits to be appended: in memory while it is little, in a temporary file once it is much."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import IO

CHUNK = 256 * 1024
MEMORY = 8 * 1024 * 1024
"""More than this is spilled to a file that has no name and goes with the process."""


class SpillBuffer:
    """Bytes that can be read again from the start, and rolled back to an earlier length."""

    def __init__(self, memory: int = MEMORY) -> None:
        self.length = 0
        self._memory_limit = memory
        self._memory = bytearray()
        self._file: IO[bytes] | None = None

    @property
    def is_spilled(self) -> bool:
        """Whether it is in a file."""
        return self._file is not None

    def write(self, content: bytes) -> None:
        """Add content.

        Raises:
            OSError: The file took only a part of it: roll back to where it was before.
        """
        if self._file is None and self.length + len(content) > self._memory_limit:
            self._spill()
        if self._file is None:
            self._memory += content
        else:
            _write_all(self._file.fileno(), content, self.length)
        self.length += len(content)

    def roll_back(self, length: int) -> None:
        """Forget everything beyond a length it had before."""
        self.length = length
        if self._file is None:
            del self._memory[length:]

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        """All of it from the start, in pieces."""
        for begin in range(0, self.length, size):
            end = min(begin + size, self.length)
            if self._file is None:
                yield bytes(memoryview(self._memory)[begin:end])
            else:
                yield os.pread(self._file.fileno(), end - begin, begin)

    def close(self) -> None:
        """Let go of memory and file."""
        self._memory = bytearray()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        spilled = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        try:
            _write_all(spilled.fileno(), bytes(self._memory), 0)
        except OSError:
            spilled.close()
            raise
        self._file, self._memory = spilled, bytearray()


def _write_all(descriptor: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
