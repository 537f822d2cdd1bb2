"""What does a runner tell other processes, and how is it asked to stop? Two files.

``running.json`` lies beside the checkpoints and says who runs the graph, since when, and how every
leg is doing; it is written anew at every change, and now and then without one, so that a runner
that was killed is known by the age of its last word. ``stop.json`` asks the runner that it names to
end; one that was left over names nobody who runs, and does nothing.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from windrow.spark.runner.checkpoint import graph_path
from windrow.spark.runner.files import Files
from windrow.spark.runner.supervisor import LegStatus

RUNNING, STOP = "running.json", "stop.json"
WORD_INTERVAL = 5.0
"""How often a runner says that it is there."""
LOST_AFTER = 30.0
"""A runner that has said nothing for so long is not there any more."""


@dataclass(frozen=True, slots=True)
class LegWord:
    """What a runner says of one leg."""

    name: str
    processor: str
    state: str
    failures: int = 0
    starts: int = 0
    rows: int = 0
    rate: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a runner says of itself: who, where, since when, and whether it has ended."""

    owner: str
    host: str
    pid: int
    began: float
    said: float
    is_ended: bool = False
    legs: tuple[LegWord, ...] = field(default=())

    def is_alive(self, now: float) -> bool:
        """Whether it runs, as far as can be told."""
        return not self.is_ended and now - self.said < LOST_AFTER

    def to_json(self) -> dict[str, Any]:
        """As it is written."""
        return asdict(self)

    @classmethod
    def from_json(cls, tree: Any) -> Standing:
        """What ``to_json`` wrote."""
        legs = tuple(LegWord(**leg) for leg in tree["legs"])
        return cls(**{**tree, "legs": legs})


class Notice:
    """The runner's side of both files."""

    def __init__(self, files: Files, checkpoint: str, graph: str, owner: str) -> None:
        self._files = files
        self._folder = graph_path(checkpoint, graph)
        self._owner = owner
        self._began = time.time()
        self._said: tuple[LegWord, ...] = ()
        self._said_at = 0.0

    def begin(self) -> None:
        """Forget a request that was meant for an earlier run."""
        self._files.remove(f"{self._folder}/{STOP}")

    def say(self, legs: Iterable[LegWord], *, is_ended: bool = False) -> None:
        """Tell how the legs are doing, if that is news or it is time for a word."""
        words, now = tuple(legs), time.time()
        states = [(word.name, word.state, word.error, word.starts) for word in words]
        before = [(word.name, word.state, word.error, word.starts) for word in self._said]
        if states == before and not is_ended and now - self._said_at < WORD_INTERVAL:
            return
        self._said, self._said_at = words, now
        standing = Standing(
            self._owner, socket.gethostname(), os.getpid(), self._began, now, is_ended, words
        )
        self._files.write(f"{self._folder}/{RUNNING}", _dumped(standing.to_json()))

    def is_stop_requested(self) -> bool:
        """Whether somebody asked this runner to end."""
        content = self._files.read(f"{self._folder}/{STOP}")
        if content is None:
            return False
        try:
            return bool(json.loads(content).get("owner") in (self._owner, None))
        except (AttributeError, ValueError):
            return False


def word_of(status: LegStatus, rows: int = 0, rate: float = 0.0) -> LegWord:
    """What is told of one leg."""
    return LegWord(
        status.leg.name,
        status.leg.processor,
        status.state.value,
        status.failures,
        status.starts,
        rows,
        round(rate, 1),
        "" if status.cause is None else str(status.cause),
    )


def read_standing(files: Files, checkpoint: str, graph: str) -> Standing | None:
    """What the last runner of a graph said of itself, if one ever did."""
    content = files.read(f"{graph_path(checkpoint, graph)}/{RUNNING}")
    if content is None:
        return None
    try:
        return Standing.from_json(json.loads(content))
    except (KeyError, TypeError, ValueError):
        return None


def request_stop(files: Files, checkpoint: str, graph: str, owner: str) -> None:
    """Ask the runner of that name to end."""
    document = {"owner": owner, "requested": time.time(), "by": os.environ.get("USER", "")}
    files.write(f"{graph_path(checkpoint, graph)}/{STOP}", _dumped(document))


def _dumped(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
