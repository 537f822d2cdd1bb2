"""``windrow journal serve`` as it is, but for the way to its peers: over links of the test's own.

The environment says which link leads to which broker; ``PLANT`` names a fault of its own making to
serve with, so that a test can see it caught. On SIGUSR1 it tells where it waits: see
``journal_waits``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.faults import journal_waits, planted
from windrow.cli.main import main
from windrow.journal.broker import assembly
from windrow.journal.broker.peers import BrokerPeers

LINKS_VARIABLE = "WINDROW_TEST_LINKS"
PLANT_VARIABLE = "WINDROW_TEST_PLANT"


class LinkedPeers(BrokerPeers):
    """Calls other brokers by way of links."""

    _links: dict[str, str] = json.loads(os.environ.get(LINKS_VARIABLE, "{}"))

    def _way_to(self, endpoint: str) -> str:
        return self._links.get(endpoint, endpoint)


if __name__ == "__main__":
    assembly.BrokerPeers = LinkedPeers  # type: ignore[attr-defined]
    if plant := os.environ.get(PLANT_VARIABLE):
        planted.PLANTS[plant]()
    journal_waits.tell_on_signal(Path.cwd())
    sys.exit(main())
