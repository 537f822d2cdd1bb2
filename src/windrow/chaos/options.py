"""How large is a run, and on what does it run? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Database = Literal["postgres", "mariadb", "sqlite"]
DATABASES: tuple[Database, ...] = ("postgres", "mariadb", "sqlite")

QUICK_SECONDS = 4.0
FULL_SECONDS = 20.0

_SHORT_SEND: dict[str, float] = {"S3": 1.0, "S4": 1.0, "slow-network": 1.5}
"""Where a send has to time out while the fault is there. Elsewhere relays wait for long, so that a
machine that is busy makes none come twice."""


@dataclass(frozen=True, slots=True)
class Options:
    """A run.

    Attributes:
        seconds: How long a scenario's stream runs, about; kills take as long as they take.
        rate: Requests of each kind per second.
        database: What the outbox lives in.
        relays: How many of them compete.
        seed: Of everything that is left to chance.
        relay_program: What a relay runs, behind the interpreter; its arguments follow.
        patience: Seconds that a scenario may take beside its own before it has failed.
    """

    seconds: float = FULL_SECONDS
    rate: float = 20.0
    database: Database = "postgres"
    relays: int = 2
    seed: int = 1
    relay_program: Sequence[str] = ("-m", "windrow")
    patience: float = 90.0

    @property
    def deadline(self) -> float:
        """Seconds after which a scenario that has not come to its end has failed."""
        return self.patience + 3 * self.seconds

    @property
    def lock_expiry(self) -> float:
        """Seconds that a claim holds: short, so that others take over while somebody looks."""
        return 2.0

    def send_timeout(self, scenario: str) -> float:
        """Seconds that a relay, or the control, waits for an answer."""
        return _SHORT_SEND.get(scenario, 10.0)

    def relay_settings(self, scenario: str) -> dict[str, str]:
        """What the relays of a scenario are told, beside where they are."""
        return {
            "RELAY__COMPETING__LOCK_EXPIRY": f"{self.lock_expiry:g}s",
            "RELAY__COMPETING__SEND_TIMEOUT": f"{self.send_timeout(scenario):g}s",
            "RELAY__COMPETING__RETRY_DELAY": "100ms",
            "RELAY__COMPETING__MAX_RETRY_DELAY": "1s",
            "RELAY__COMPETING__IDLE_INTERVAL": "200ms",
            # What fails while a fault is there is well again soon: none of it is to be given up.
            "RELAY__COMPETING__MAX_ATTEMPTS": "1000",
            "RELAY__COMPETING__CIRCUIT__OPEN_FOR": "300ms",
        }
