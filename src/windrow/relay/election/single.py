"""No election: this process leads because somebody said there is only one."""

from __future__ import annotations

import math
from collections.abc import Callable

from windrow.relay.election.leading import Leading


class SingleElection:
    """Leads from the first pulse on, under an epoch of its own.

    A second one by mistake still does no harm to the first one's rows: the epoch fences it.
    """

    pulse_interval = 1.0

    def __init__(self, raise_epoch: Callable[[], int]) -> None:
        self._raise_epoch = raise_epoch
        self._leading: Leading | None = None

    def pulse(self) -> Leading | None:
        """Take the lead once and keep it."""
        if self._leading is None:
            self._leading = Leading(self._raise_epoch(), math.inf)
        return self._leading

    def resign(self) -> None:
        """Stop leading; the next pulse would begin anew."""
        self._leading = None

    def close(self) -> None:
        """Nothing to let go of."""
