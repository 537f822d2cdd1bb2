"""A steady stream of requests of both kinds, and an account of how each was answered.

The account is in the form of ``windrow.verify``'s ledger, one file for each kind. A record's key is
the hero's name, and its id the request's correlation id, which is the same text and travels with
the message. A request
that was answered with 201 or 502 is ``written`` (502 is the control's: the hero stays, its message
is lost), one that certainly wrote nothing is ``undone``, any other stays a ``maybe``.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from windrow.lines import append, open_lines

Kind = Literal["outbox", "sync"]
Outcome = Literal["written", "undone", "maybe"]

PATHS: dict[Kind, str] = {"outbox": "/hero/create", "sync": "/hero/create-sync"}
TEAMS = ("Avengers", "Defenders", "Justice League", "Outsiders", "X-Men")


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, and what became of it.

    Attributes:
        kind: By way of the outbox, or the control.
        correlation: Its id, and that of the record in the ledger.
        at: When it was sent, in seconds since the epoch.
        seconds: Until the answer, or until it was given up.
        status: Of the answer; None if there was none.
        outcome: What is known of the hero.
        error: Why there was no answer, or what it said was wrong.
        message_id: Of the message about the hero, if it is known to be written.
    """

    kind: Kind
    correlation: str
    at: float
    seconds: float
    status: int | None
    outcome: Outcome
    error: str | None = None
    message_id: str | None = None


def outcome_of(kind: Kind, status: int | None, was_sent: bool = True) -> Outcome:
    """What an answer says about the hero."""
    if not was_sent:
        return "undone"
    if status == 201 or (kind == "sync" and status == 502):
        return "written"
    if status is not None and (400 <= status < 500 or status == 503):
        return "undone"
    return "maybe"


class Stream:
    """Requests at a steady rate from threads of its own, for so many or until it is stopped."""

    def __init__(
        self,
        producer_url: str,
        directory: Path,
        *,
        rate: float,
        count: int | None = None,
        sync_share: float = 0.5,
        workers: int = 16,
        timeout: float = 10.0,
        on_sent: Callable[[Sent], None] | None = None,
    ) -> None:
        """Get ready; ``start`` begins.

        Args:
            producer_url: Whom to ask.
            directory: Where the ledgers and the times are written.
            rate: Requests per second, of both kinds together; 0 is as fast as they are answered.
            count: How many in all; None is until ``stop``.
            sync_share: How many of them are the control, from 0 to 1.
            workers: How many of each kind may wait for their answers; when all do, the stream falls
                behind its rate.
            timeout: Seconds after which an answer is not waited for any more.
            on_sent: Told of each request; called by any thread, one at a time.
        """
        self.directory = directory
        self._account = _Account(directory)
        self._on_sent = on_sent
        self._stopping = threading.Event()
        run = secrets.token_hex(4)
        shares: dict[Kind, float] = {"outbox": 1.0 - sync_share, "sync": sync_share}
        numbers = _divide(count, shares)
        lanes = [
            _Lane(kind, run, rate * share, numbers[kind])
            for kind, share in shares.items()
            if share > 0 and numbers[kind] != 0
        ]
        self._threads = [
            threading.Thread(
                target=self._work, args=(lane, producer_url, timeout), name=f"stream-{lane.kind}"
            )
            for lane in lanes
            for _ in range(workers)
        ]

    @property
    def ledgers(self) -> dict[Kind, Path]:
        """The ledger of each kind, as ``windrow.verify.LedgerFile`` reads it."""
        return {kind: ledger_path(self.directory, kind) for kind in PATHS}

    @property
    def times(self) -> Path:
        """A line of JSON for each request: a ``Sent``."""
        return self.directory / "requests.jsonl"

    @property
    def counts(self) -> dict[Kind, dict[Outcome, int]]:
        """How many requests have ended so far, and how."""
        return self._account.counts()

    def start(self) -> Self:
        """Begin to send."""
        for thread in self._threads:
            thread.start()
        return self

    def is_alive(self) -> bool:
        """Whether something may still be sent, or is waited for."""
        return any(thread.is_alive() for thread in self._threads)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all was sent and answered; false if that took longer."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not self.is_alive()

    def stop(self) -> None:
        """Send no more, and wait for the answers to what was sent."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._account.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _work(self, lane: _Lane, producer_url: str, timeout: float) -> None:
        client = _Client(producer_url, timeout)
        try:
            while (number := lane.take()) is not None:
                if self._stopping.wait(lane.seconds_until(number)):
                    return
                sent = self._send(lane, number, client)
                if self._on_sent is not None:
                    with self._account.lock:
                        self._on_sent(sent)
        finally:
            client.close()

    def _send(self, lane: _Lane, number: int, client: _Client) -> Sent:
        name = f"{lane.run}-{lane.kind}-{number:06}"
        hero = {"name": name, "team": TEAMS[number % len(TEAMS)]}
        self._account.begin(lane.kind, name)
        at, began = time.time(), time.monotonic()
        answer = client.post(PATHS[lane.kind], hero, name)
        sent = Sent(
            kind=lane.kind,
            correlation=name,
            at=at,
            seconds=time.monotonic() - began,
            status=answer.status,
            outcome=outcome_of(lane.kind, answer.status, answer.was_sent),
            error=answer.error,
            message_id=answer.message_id,
        )
        self._account.end(sent)
        return sent


def ledger_path(directory: Path, kind: Kind) -> Path:
    """Where a stream into that directory keeps its ledger of that kind."""
    return directory / f"{kind}.ledger"


class _Lane:
    """One kind of request: which number is next, and when it is due."""

    def __init__(self, kind: Kind, run: str, rate: float, count: int | None) -> None:
        self.kind: Kind = kind
        self.run, self._rate, self._count = run, rate, count
        self._next = 0
        self._lock = threading.Lock()
        self._began: float | None = None

    def take(self) -> int | None:
        with self._lock:
            if self._began is None:
                self._began = time.monotonic()
            if self._count is not None and self._next >= self._count:
                return None
            self._next += 1
            return self._next - 1

    def seconds_until(self, number: int) -> float:
        if self._rate <= 0:
            return 0.0
        assert self._began is not None, "taken before"
        return max(0.0, self._began + number / self._rate - time.monotonic())


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int | None
    was_sent: bool = True
    error: str | None = None
    message_id: str | None = None


class _Client:
    """One connection to the producer, kept for as long as it lasts."""

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout)

    def post(self, path: str, value: object, correlation: str) -> _Answer:
        headers = {"content-type": "application/json", "correlation-id": correlation}
        try:
            self._connect()
        except OSError as error:
            self.close()
            return _Answer(None, was_sent=False, error=_said(error))
        try:
            self._connection.request("POST", path, json.dumps(value), headers)
            response = self._connection.getresponse()
            return _read(response.status, response.read())
        except (OSError, HTTPException) as error:
            self.close()
            return _Answer(None, error=_said(error))

    def _connect(self) -> None:
        held = self._connection.sock
        # Whatever can be read from an idle connection is its end.
        if held is not None and select.select([held], [], [], 0)[0]:
            self.close()
        if self._connection.sock is None:
            self._connection.connect()

    def close(self) -> None:
        self._connection.close()


class _Account:
    """The files of a stream, each line in one write."""

    def __init__(self, directory: Path) -> None:
        self.lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        self._ledgers = {kind: open_lines(ledger_path(directory, kind)) for kind in PATHS}
        self._times = open_lines(directory / "requests.jsonl")
        self._counts: dict[Kind, Counter[Outcome]] = {kind: Counter() for kind in PATHS}
        self._is_open = True

    def begin(self, kind: Kind, correlation: str) -> None:
        with self.lock:
            append(self._ledgers[kind], _line(["maybe", correlation, correlation]))

    def end(self, sent: Sent) -> None:
        with self.lock:
            if sent.outcome != "maybe":
                line = _line([sent.outcome, sent.correlation, sent.correlation])
                append(self._ledgers[sent.kind], line)
            append(self._times, _line(asdict(sent)))
            self._counts[sent.kind][sent.outcome] += 1

    def counts(self) -> dict[Kind, dict[Outcome, int]]:
        with self.lock:
            return {
                kind: {
                    "written": counter["written"],
                    "undone": counter["undone"],
                    "maybe": counter["maybe"],
                }
                for kind, counter in self._counts.items()
            }

    def close(self) -> None:
        with self.lock:
            if self._is_open:
                self._is_open = False
                for file in (*self._ledgers.values(), self._times):
                    os.close(file)


def _divide(count: int | None, shares: dict[Kind, float]) -> dict[Kind, int | None]:
    if count is None:
        return {"outbox": None, "sync": None}
    sync = round(count * shares["sync"])
    return {"outbox": count - sync, "sync": sync}


def _read(status: int, body: bytes) -> _Answer:
    try:
        told = json.loads(body)
    except ValueError:
        told = {}
    hero = told.get("hero", told)
    return _Answer(status, error=told.get("error"), message_id=hero.get("messageId"))


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _said(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
