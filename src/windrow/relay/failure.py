"""What went wrong with a record, in the four kinds that call for different answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FailureKind(Enum):
    """What a failed delivery says about the record and about the target."""

    RETRIABLE = "retriable"
    """This record was refused, and may pass another time: counts as an attempt."""
    TARGET_DOWN = "target down"
    """The target does not answer. Says nothing about the record: no attempt is counted."""
    PERMANENT = "permanent"
    """This record can never pass: too large, unknown topic, malformed."""
    UNKNOWN = "unknown"
    """It may have been written. Sent again as it is: a repeat of its key's latest."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a delivery failed."""

    kind: FailureKind
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"
