"""Which scenarios are there, what does each do, and what is to be expected of it? Only data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windrow.chaos.errors import UnknownScenario
from windrow.chaos.grading import Promise

ALL = "all"

CLAIMED = "competing.claimed"
POINTS = (
    "competing.before-claim",
    CLAIMED,
    "competing.sending",
    "competing.sent",
)
"""Where S7 kills a relay: see ``windrow.points``."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as it is declared.

    Attributes:
        name: As on the command line.
        title: In a few words.
        does: What happens.
        expect: What the outbox and the control show.
        promise: What is graded.
    """

    name: str
    title: str
    does: str
    expect: str
    promise: Promise


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "S1",
        "receiver offline",
        "The receiver's process is killed, and started again.",
        "The outbox waits and delivers; the control loses whatever it sent meanwhile.",
        # Killed between having kept a message and having answered, it gets it again.
        Promise(may_double=True, control_must_lose=True),
    ),
    Scenario(
        "S2",
        "receiver failing now and then",
        "The receiver answers a third of the messages with 503.",
        "The outbox tries again; the control loses a third.",
        Promise(control_must_lose=True),
    ),
    Scenario(
        "S3",
        "receiver holding requests",
        "The receiver takes requests and answers nothing until they time out: first without having"
        " kept the message, then only its answer is held back.",
        "The outbox tries again, and what was kept comes twice; the control loses what was held.",
        Promise(may_double=True, control_must_lose=True),
    ),
    Scenario(
        "S4",
        "event-loop stalls",
        "The receiver's event loop blocks for longer than a send may take, again and again.",
        "The outbox may deliver twice what was kept and answered too late; nothing is lost.",
        Promise(may_double=True),
    ),
    Scenario(
        "S5",
        "client errors",
        "The receiver refuses every message with 400; once it is well, the dead letters are"
        " retried.",
        "The outbox buries what is refused, keeps it, and delivers it after the retry; the control"
        " loses it.",
        Promise(control_must_lose=True, must_bury=True),
    ),
    Scenario(
        "S6",
        "database outage and paused lock holder",
        "The database is killed and started again; then a relay that has just claimed messages is"
        " stopped for longer than its locks last, and let go on.",
        "What was committed is delivered; what the paused relay held is sent by another, and may"
        " come twice.",
        Promise(may_double=True),
    ),
    Scenario(
        "S7",
        "relay dies",
        "A relay is killed at each named point: before a claim, behind it, while sending, and after"
        " the answer before it is noted; with another relay alive, and with none.",
        "Locks expire and another relay goes on; what was sent and not noted comes twice, with the"
        " same id.",
        Promise(may_double=True),
    ),
    Scenario(
        "clock-skew",
        "relays whose clocks are wrong",
        "One relay's calendar is an hour ahead, one's is an hour behind; one of them is killed.",
        "Only the database's clock counts: no lock ends early or late.",
        Promise(may_double=True),
    ),
    Scenario(
        "slow-network",
        "slow and stalling network",
        "Every byte to the receiver is late; then none passes for longer than a send may take, and"
        " the connections are reset.",
        "The outbox tries again, and may deliver twice; the control loses what was on the way.",
        Promise(may_double=True, control_must_lose=True),
    ),
    Scenario(
        "broker-loss",
        "Kafka broker dies",
        "An ordered relay brings the outbox to Kafka; the broker is killed and started again.",
        "The relay waits and goes on; what was not acknowledged may come twice.",
        Promise(may_double=True),
    ),
)


def choose(names: Sequence[str]) -> list[Scenario]:
    """The scenarios of these names in the order of the list; all of them for ``all`` or nothing.

    Raises:
        UnknownScenario: There is none of that name.
    """
    known = {scenario.name.lower(): scenario for scenario in SCENARIOS}
    wanted = [name.lower() for name in names] or [ALL]
    for name in wanted:
        if name != ALL and name not in known:
            raise UnknownScenario(name, tuple(scenario.name for scenario in SCENARIOS))
    if ALL in wanted:
        return list(SCENARIOS)
    return [scenario for key, scenario in known.items() if key in wanted]
