"""From the configuration to what queries are started with."""

from __future__ import annotations

from windrow.config import Config
from windrow.spark.places import Connections, JournalSettings, connections_of
from windrow.spark.query.leg_plan import QuerySettings


def connections_for(config: Config) -> Connections:
    """How the places of queues are reached, and how new journals are made."""
    journals = config.graph.journals
    return connections_of(
        config,
        JournalSettings(
            replication=journals.replication,
            fragment_length=journals.fragment_length,
            codec=journals.codec,
            stores=journals.stores,
            refresh_interval=journals.refresh_interval,
            retention=journals.retention,
            flush_interval=journals.flush_interval,
        ),
    )


def query_settings(config: Config) -> QuerySettings:
    """How much a batch may take."""
    return QuerySettings(max_rows=config.graph.max_rows, max_bytes=config.graph.max_bytes)
