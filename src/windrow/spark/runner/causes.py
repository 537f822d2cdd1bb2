"""Why did a query end, and may it be started again? Pure.

What fails in a worker reaches the driver as text: a Java exception around the traceback of another
process. The class in it is the diagnosis. A line of a traceback names it with its module, which no
message of a user's function does at the beginning of a line by chance.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from enum import Enum

from windrow.config.redaction import redact
from windrow.errors import OutcomeUnknown, Unreachable, UsageError, WindrowError
from windrow.graph.delivery_errors import AttemptsExhausted, Fenced, Refused
from windrow.journal.client.errors import CallFailed, WriterFenced
from windrow.journal.errors import (
    InsufficientBrokers,
    NoPrimaryBroker,
    NotBroker,
    NotPrimaryBroker,
)
from windrow.spark.runner.checkpoint import TornFile

_OURS = re.compile(r"^\W*(windrow(?:\.\w+)+)\.(\w+)(?:: (.*))?$", re.MULTILINE)
_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Interrupt|Warning)): (.*)$", re.M)
_JAVA = re.compile(r"^(?:Caused by)?: (?:[\w.$]+\.)?(\w+): (.*)$", re.MULTILINE)
_TORN = re.compile(r"Failed to read log file (\S+?)[.,]?(?:\s|$)")
_TORN_MARKS = ("Failed to read log file", "Incomplete log file")
_CONCURRENT = "CONCURRENT_STREAM_LOG_UPDATE"
_SLOW_MACHINE = "Python worker failed to connect back"
"""Spark waits ten seconds for a process to come up: on a busy machine that is not enough."""
_LONGEST_REASON = 500
_AWAY = (
    CallFailed,
    InsufficientBrokers,
    NoPrimaryBroker,
    NotBroker,
    NotPrimaryBroker,
    OutcomeUnknown,
    Unreachable,
)


class CauseKind(Enum):
    """What an end means for the next start."""

    FENCED = "fenced"
    """Another driver has the processor; starting again would only take it back."""
    REFUSED = "refused"
    """Going on would lose or double something, or cannot be: a person decides."""
    EXHAUSTED = "exhausted"
    """A batch failed as often as its processor allows."""
    TORN = "torn"
    """A file of Spark's checkpoint was cut short; ``repair`` removes it."""
    OUTAGE = "outage"
    """A service does not answer, or nobody knows what it did: no fault of the batch."""
    FAILURE = "failure"
    """Anything else: the function, its worker, or Spark."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a query ended: the class of the error that says most, and its sentence."""

    kind: CauseKind
    error: str
    reason: str

    @property
    def may_restart(self) -> bool:
        """Whether starting again can help, without anybody doing something first."""
        return self.kind in (CauseKind.OUTAGE, CauseKind.FAILURE)

    @property
    def counts(self) -> bool:
        """Whether it counts as a failed attempt: while a service is away none does."""
        return self.kind is CauseKind.FAILURE

    def __str__(self) -> str:
        return f"{self.error}: {self.reason}" if self.reason else self.error


def cause_of(error: BaseException) -> Cause:
    """Why it ended, from what was raised here: an error of ours, or one of Spark around it."""
    if isinstance(error, WindrowError):
        return Cause(_kind_of(type(error)), type(error).__name__, _shortened(str(error)))
    return cause_in(type(error).__name__, str(error))


def cause_in(error: str, text: str) -> Cause:
    """Why it ended, from the text that Spark gives; ``error`` names it if nothing in it does."""
    named = _named(text)
    for wanted in _BY_WEIGHT:
        # The outermost error stands last in a chain of tracebacks.
        for kind, name, said in reversed(named):
            if kind is wanted:
                return Cause(kind, name, _shortened(said))
    if _CONCURRENT in text:
        reason = "another driver writes to the same checkpoint"
        return Cause(CauseKind.FENCED, "ConcurrentUpdate", reason)
    if any(mark in text for mark in _TORN_MARKS):
        found = _TORN.search(text)
        where = f" {found[1]}" if found else ""
        reason = f'the log file{where} was cut short; run "windrow graph repair"'
        return Cause(CauseKind.TORN, "TornLog", reason)
    if _SLOW_MACHINE in text:
        return Cause(CauseKind.OUTAGE, "SlowMachine", _SLOW_MACHINE)
    python = list(_PYTHON.finditer(text))
    if python:
        return Cause(CauseKind.FAILURE, python[-1][1], _shortened(python[-1][2]))
    java = list(_JAVA.finditer(text))
    if java:
        return Cause(CauseKind.FAILURE, java[-1][1], _shortened(java[-1][2]))
    return Cause(CauseKind.FAILURE, error, _shortened(text))


_BY_WEIGHT = (
    CauseKind.FENCED,
    CauseKind.TORN,
    CauseKind.EXHAUSTED,
    CauseKind.REFUSED,
    CauseKind.OUTAGE,
    CauseKind.FAILURE,
)


def _named(text: str) -> list[tuple[CauseKind, str, str]]:
    found = []
    for match in _OURS.finditer(text):
        module, name, said = match.groups()
        error = _class_of(module, name)
        if error is not None:
            found.append((_kind_of(error), name, said or ""))
    return found


def _class_of(module: str, name: str) -> type[BaseException] | None:
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    is_error = isinstance(found, type) and issubclass(found, BaseException)
    return found if is_error else None


def _kind_of(error: type[BaseException]) -> CauseKind:
    if issubclass(error, Fenced | WriterFenced):
        return CauseKind.FENCED
    if issubclass(error, TornFile):
        return CauseKind.TORN
    if issubclass(error, AttemptsExhausted):
        return CauseKind.EXHAUSTED
    if issubclass(error, Refused | UsageError):
        return CauseKind.REFUSED
    if issubclass(error, _AWAY):
        return CauseKind.OUTAGE
    return CauseKind.FAILURE


def _shortened(text: str) -> str:
    """The first line, without a secret in it: it goes to logs and to the terminal."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    first = redact(first)
    return first if len(first) <= _LONGEST_REASON else first[: _LONGEST_REASON - 1] + "…"
