"""The floor under every append: the same bytes written and brought to the disk by a bare loop."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path


def bare_rate(piece: int, pieces: int, *, pieces_per_sync: int) -> float:
    """Pieces a second that a loop writes, bringing them to the disk every so many."""
    content = os.urandom(piece)
    with tempfile.TemporaryDirectory(prefix="windrow-bench-") as directory:
        file = os.open(Path(directory, "bare"), os.O_CREAT | os.O_WRONLY)
        try:
            began = time.perf_counter()
            for n in range(pieces):
                os.write(file, content)
                if (n + 1) % pieces_per_sync == 0:
                    os.fdatasync(file)
            os.fdatasync(file)
            return pieces / (time.perf_counter() - began)
        finally:
            os.close(file)
