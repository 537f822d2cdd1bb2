"""Which request suffers which fault? Pure but for the dice, and those can be loaded."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from windrow.playpen.errors import BadRequest

When = Literal["before", "after"]
MAX_SECONDS = 600.0


class Mode(StrEnum):
    """What a receiver does to the requests it is unkind to."""

    NONE = "none"
    FAIL = "fail"
    """Answer with a 5xx."""
    HOLD = "hold"
    """Answer nothing until the client gives up, or the seconds are over."""
    STALL = "stall"
    """Block the event loop, and with it every other request."""
    REJECT = "reject"
    """Answer with a 4xx."""


_STATUS = {Mode.FAIL: 503, Mode.REJECT: 400}
_SECONDS = {Mode.HOLD: MAX_SECONDS, Mode.STALL: 1.0}
_KEYS = ("mode", "rate", "status", "seconds", "seed", "when")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and how often it happens.

    Attributes:
        mode: What happens.
        rate: To which share of the messages.
        status: What ``fail`` and ``reject`` answer.
        seconds: How long ``hold`` holds at most, and ``stall`` blocks.
        seed: Makes the same messages suffer each time; None for chance.
        when: Before the message is stored, or after: then it is an answer that gets lost.
    """

    mode: Mode = Mode.NONE
    rate: float = 1.0
    status: int = 503
    seconds: float = 1.0
    seed: int | None = None
    when: When = "before"

    def as_object(self) -> dict[str, Any]:
        """As ``/faults`` shows it."""
        return {key: getattr(self, key) for key in _KEYS}


def parse_fault(body: bytes) -> Fault:
    """The fault that a request to ``/faults`` asks for.

    Raises:
        BadRequest: There is no such fault.
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(given, dict):
        raise BadRequest('the body must be a JSON object such as {"mode": "fail", "rate": 0.3}')
    unknown = sorted(set(given) - set(_KEYS))
    if unknown:
        raise BadRequest(f"unknown field {unknown[0]!r}; there are {', '.join(_KEYS)}", 422)
    mode = _mode(given.get("mode"))
    return Fault(
        mode=mode,
        rate=_number(given, "rate", 1.0, 1.0),
        status=_status(mode, given.get("status", _STATUS.get(mode, 503))),
        seconds=_number(given, "seconds", _SECONDS.get(mode, 1.0), MAX_SECONDS),
        seed=_seed(given.get("seed")),
        when=_when(given.get("when", "before")),
    )


class Dice:
    """Decides, message by message, and counts."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.applied = 0
        self._random = random.Random(fault.seed)

    def hits(self) -> bool:
        """Whether the next message suffers."""
        if self.fault.mode is Mode.NONE:
            return False
        hit = self._random.random() < self.fault.rate
        self.applied += hit
        return hit


def _mode(value: object) -> Mode:
    if value == "offline":
        raise BadRequest("whoever answers is not offline: stop the process instead", 422)
    try:
        return Mode(str(value))
    except ValueError:
        raise BadRequest(f"mode must be one of {', '.join(Mode)}", 422) from None


def _number(given: dict[str, Any], key: str, default: float, highest: float) -> float:
    value = given.get(key, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= highest:
        raise BadRequest(f"{key} must be a number from 0 to {highest:g}", 422)
    return float(value)


def _status(mode: Mode, value: object) -> int:
    lowest = 400 if mode is Mode.REJECT else 500
    if type(value) is not int or not lowest <= value < lowest + 100:
        raise BadRequest(f"status must be from {lowest} to {lowest + 99} for this mode", 422)
    return value


def _seed(value: object) -> int | None:
    if value is not None and type(value) is not int:
        raise BadRequest("seed must be a whole number", 422)
    return value if isinstance(value, int) else None


def _when(value: object) -> When:
    match value:
        case "before" | "after":
            return value
        case _:
            raise BadRequest("when must be before or after", 422)
