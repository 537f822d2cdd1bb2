"""Breaks off what waits too long: one thread for all sessions of the process.

A link may take bytes and pass none of them, a server may be stopped in the middle of an answer: the
socket stays open, and whoever waits on it would wait for ever. The thread lives as long as there is
a session to watch.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

INTERVAL = 0.2


class Watched(Protocol):
    """What may hang."""

    answer_due: float | None
    """Until when an answer is expected, by the monotonic clock; None while none is."""

    def give_up(self) -> None:
        """Break off what hangs; called from the watchdog's thread."""


class Watchdog:
    """Looks at each session a few times a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: set[Watched] = set()
        self._is_running = False

    def watch(self, session: Watched) -> None:
        """Look at this one from now on."""
        with self._lock:
            self._sessions.add(session)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="windrow-watchdog", daemon=True).start()

    def release(self, session: Watched) -> None:
        """Look at this one no longer."""
        with self._lock:
            self._sessions.discard(session)

    def _run(self) -> None:
        while True:
            time.sleep(INTERVAL)
            with self._lock:
                if not self._sessions:
                    self._is_running = False
                    return
                sessions = list(self._sessions)
            now = time.monotonic()
            for session in sessions:
                due = session.answer_due
                if due is not None and now > due:
                    session.give_up()


watchdog = Watchdog()
"""The one of this process."""
