"""Who asks the producer for heroes, at a steady pace? A few clients, each with teams of its own.

The heroes of one team are asked for by one client, one after the other, so that there is an order
among them that every part of the road has to keep. Between teams there is none.
"""

from __future__ import annotations

import json
import threading
import time
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import Final, Self

from windrow.embedded.ports import LOOPBACK

CLIENTS: Final = 4
TEAMS: Final = 8
ANSWER_TIMEOUT: Final = 30.0


class Load:
    """Clients in threads of their own, as long as the block runs or until they have had enough.

    Args:
        port: Of the producer.
        rate: Heroes a second, of all clients together.
        most: How many heroes to ask for at most.
    """

    def __init__(self, port: int, rate: float, most: int) -> None:
        self._port, self._pause, self._most = port, CLIENTS / rate, most // CLIENTS
        self._ended = threading.Event()
        self._may_ask = threading.Event()
        self._may_ask.set()
        self._refused = [0] * CLIENTS
        self._threads = [
            threading.Thread(target=self._ask, args=(n,), name=f"client {n}", daemon=True)
            for n in range(CLIENTS)
        ]

    def wait(self) -> None:
        """Wait until they have had enough."""
        for thread in self._threads:
            thread.join()

    def hold(self, is_held: bool) -> None:
        """Ask for nothing for the time being, or go on."""
        if is_held:
            self._may_ask.clear()
        else:
            self._may_ask.set()

    def stop(self) -> None:
        """Ask for nothing more; what was asked for is answered when this returns."""
        self._ended.set()
        self._may_ask.set()
        self.wait()

    @property
    def refused(self) -> int:
        """How many requests were not answered by a hero."""
        return sum(self._refused)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _ask(self, client: int) -> None:
        connection = HTTPConnection(LOOPBACK, self._port, timeout=ANSWER_TIMEOUT)
        due = time.monotonic()
        for number in range(self._most):
            self._may_ask.wait()
            if self._ended.wait(max(0.0, due - time.monotonic())):
                break
            due = max(due + self._pause, time.monotonic() - 1.0)  # what was missed is let go
            if not _created(connection, *hero(client, number)):
                self._refused[client] += 1
        connection.close()


def hero(client: int, number: int) -> tuple[str, str]:
    """Name and team of the hero that a client asks for next."""
    teams = range(client, TEAMS, CLIENTS)
    return f"hero {client}.{number}", f"team {teams[number % len(teams)]}"


def _created(connection: HTTPConnection, name: str, team: str) -> bool:
    body = json.dumps({"name": name, "team": team})
    try:
        connection.request("POST", "/hero/create", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
    except (OSError, HTTPException):
        connection.close()  # the next request opens another
        return False
    return answer.status == HTTPStatus.CREATED
