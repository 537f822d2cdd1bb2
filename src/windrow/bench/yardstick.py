"""How fast is the machine just now?

Neighbours of a virtual machine can slow it by half for minutes, and every figure with it. A fixed
piece of work beside the figures tells such an hour from a change in what is measured.
"""

from __future__ import annotations

import time

STEPS = 1_000_000
COPIES, COPY_BYTES = 8, 8 * 1024 * 1024


def fixed_work() -> float:
    """Milliseconds of processor time for a loop of the interpreter and copies of memory."""
    block = bytes(COPY_BYTES)
    began = time.process_time()
    total = 0
    for step in range(STEPS):
        total += step * step
    for _ in range(COPIES):
        bytearray(block)
    return (time.process_time() - began) * 1000
