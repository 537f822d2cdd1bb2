"""From the configuration to a competing relay."""

from __future__ import annotations

from windrow.config import Config
from windrow.outbox.claims import open_claims
from windrow.outbox.table import Table
from windrow.relay.competing.service import CompetingRelay
from windrow.telemetry.events import EventBus


def competing_relay(config: Config, events: EventBus | None = None) -> CompetingRelay:
    """The relay that the configuration describes; nothing is connected yet.

    Raises:
        UsageError: Parts of the configuration do not go together, or an extra is missing.
    """
    from windrow.relay.targets.http import HttpTarget

    relay, database = config.relay, config.database
    return CompetingRelay(
        open_claims(
            database.dsn.reveal(),
            Table.parse(database.table),
            pooler=relay.pooler,
            connect_timeout=database.connect_timeout,
            answer_timeout=database.answer_timeout,
        ),
        HttpTarget(relay.http, relay.competing.send_timeout),
        relay.competing,
        events=events,
        drain_timeout=relay.drain_timeout,
    )
