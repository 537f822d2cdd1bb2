"""How is it waited for what nobody announces? By asking again, until patience ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from windrow.demo.errors import DemoStalled

T = TypeVar("T")

PATIENCE = 400.0
INTERVAL = 0.2


def wait_for(
    ask: Callable[[], T | None],
    otherwise: str,
    patience: float = PATIENCE,
    log: Callable[[], str] = str,
) -> T:
    """The first answer that is one.

    Raises:
        DemoStalled: There was none for too long; ``otherwise`` says of what.
    """
    deadline = time.monotonic() + patience
    while True:
        answer = ask()
        if answer is not None:
            return answer
        if time.monotonic() > deadline:
            raise DemoStalled(otherwise, patience, log())
        time.sleep(INTERVAL)  # tables and queues tell nobody that they have changed
