"""What every command does that runs until it is stopped: heed signals, show metrics and health."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from windrow.config import Config
from windrow.telemetry import CheckKind, Health, Metrics, http

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[bool], None]) -> Iterator[None]:
    """Call ``stop`` for every signal to end, with true from the second on: it does not wait."""
    asked: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop(bool(asked))
        asked.append(number)

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def served(
    config: Config, metrics: Metrics, name: str, problem: Callable[[], str | None]
) -> Iterator[None]:
    """Metrics and health, if a port is configured; ``problem`` says what is wrong, if anything."""
    if config.http.port == 0:
        yield
        return
    health = Health()
    health.add(name, problem, kind=CheckKind.LIVE)
    server = http.start(config.http.host, config.http.port, metrics, health)
    try:
        yield
    finally:
        server.stop()
