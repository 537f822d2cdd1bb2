"""Digests of columns of bytes, all rows at once.

They say which part of the data a record belongs to, where a collision costs nothing. And two of
them, 128 bits, stand for a key where order is judged. There two keys that collide, by accident or
on purpose, would be judged as one, with the greater of their latest records as the latest: a record
may then be called misordered that is not, and none that is misordered or doubled passes for well.
Whether something is missing is never decided by a digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Digests = NDArray[np.uint64]

_WORD: Final = 8
_MULTIPLIERS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_FINAL: Final = np.uint64(0xD6E8FEB86659FD93)
_SHIFT: Final = np.uint64(32)


def digests(column: pa.Array, which: int = 0) -> Digests:
    """64 bits for each value of a column of bytes without nulls; ``which`` is 0 or 1."""
    multiplier = np.uint64(_MULTIPLIERS[which])
    content, begins, lengths = _places(column)
    found: Digests = (lengths + 1).astype(np.uint64) * multiplier
    rows, at, left = slice(None), begins, lengths
    everyone: NDArray[np.int64] = np.arange(len(begins))
    while True:
        # Words of eight bytes, one of each value in turn; what is at its end drops out.
        longer = np.flatnonzero(left > 0)
        if not len(longer):
            break
        if len(longer) < len(left):
            everyone, at, left = everyone[longer], at[longer], left[longer]
            rows = everyone  # type: ignore[assignment]  # a slice as long as it is all of them
        words = content[at]
        short = np.flatnonzero(left < _WORD)
        bits = (_WORD * left[short]).astype(np.uint64)
        words[short] &= (np.uint64(1) << bits) - np.uint64(1)
        found[rows] = _stir(found[rows] ^ words, multiplier)
        at, left = at + _WORD, left - _WORD
    return _stir(found, _FINAL)


def together(first: Digests, second: Digests) -> Digests:
    """One digest of two, in this order."""
    return _stir(first * np.uint64(_MULTIPLIERS[1]) + second, _FINAL)


def _stir(values: Digests, multiplier: np.uint64) -> Digests:
    values = values * multiplier
    return values ^ (values >> _SHIFT)


def _places(column: pa.Array) -> tuple[Digests, NDArray[np.int64], NDArray[np.int64]]:
    """The content as overlapping words, one at each byte, and where each value lies in it."""
    _, offsets, content = column.buffers()
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = (int(edges[0]), int(edges[-1])) if len(column) else (0, 0)
    held = b"" if content is None else memoryview(content)[first:last]
    padded = bytes(held) + bytes(_WORD)
    words: Digests = np.ndarray((last - first + 1,), "<u8", padded, strides=(1,))
    begins = edges[:-1].astype(np.int64) - first
    return words, begins, np.diff(edges).astype(np.int64)
