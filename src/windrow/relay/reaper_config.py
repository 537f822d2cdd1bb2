"""What goharvest's fields mean to this relay: its file in, our settings out. Pure.

Everything that has a counterpart is carried over, goharvest's own defaults included; what has none
is named with the reason, so that nobody tunes a dial that turns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windrow.errors import InvalidValue
from windrow.go_duration import SECOND
from windrow.relay.go_dsn import as_libpq
from windrow.relay.reaper_file import ELECTION_DEFAULTS, ReaperFile
from windrow.relay.targets.kafka import TIMEOUT_NAMES

PARTITIONER = "consistent_random"
"""librdkafka's own, which goharvest uses: it puts a key elsewhere than Java's clients do."""
PARTITIONER_NOTE = (
    "as goharvest has it, so that every key stays on its partition; Java's clients put the same key"
    " elsewhere, unless it is set to murmur2_random, which moves keys once"
)

SLOWEST_LOOK = 0.1
"""goharvest looks every ``markBackoff`` for ever; here only while there was something lately."""
DEFAULT_MARGIN = 0.25

CLIENT_TIMEOUT = 300_000
"""What Kafka's client takes for it, in milliseconds, where nobody says anything."""

LEVELS = {
    "All": "debug",
    "Trace": "debug",
    "Debug": "debug",
    "Info": "info",
    "Warn": "warning",
    "Error": "error",
    "Off": "error",
}

IGNORED = {
    "ioErrorBackoff": "after a database error the pauses grow from 50 ms to 5 s",
    "pollDuration": "a pulse waits for its own heartbeat",
    "maxPollInterval": "the right to lead is asked before every send",
    "queueTimeout": "a record waits behind its own key only",
    "drainInterval": "a record waits behind its own key only",
    "sendConcurrency": "one producer serves every key at once",
    "sendBuffer": "one producer serves every key at once",
}


@dataclass(frozen=True, slots=True)
class Translation:
    """Our settings, and what a person should know about them."""

    content: Mapping[str, Any] = field(repr=False)
    """As a configuration file of ours would have it, secrets in clear."""
    ignored: tuple[str, ...]
    """What the file sets and nothing reads, with the reason."""
    warnings: tuple[str, ...]


def translate(file: ReaperFile) -> Translation:
    """Our settings for a valid file of goharvest's."""
    heartbeat_timeout = _seconds(file, "heartbeatTimeout")
    quick = _seconds(file, "markBackoff") or 0.001
    producer = {
        key: value for key, value in file.producer_kafka.items() if key not in TIMEOUT_NAMES
    }
    if "partitioner" not in file.base_kafka:
        producer.setdefault("partitioner", PARTITIONER)
    delivery_timeout, warnings = _delivery_timeout(file, 2 * heartbeat_timeout)
    properties = dict(file.base_kafka)
    bootstrap = properties.pop("bootstrap.servers")
    relay = {
        "name": file.name,
        "mode": "barrier",
        "delivery_timeout": _written(delivery_timeout),
        "meter_interval": _written(_seconds(file, "minMetricsInterval")),
        "election": {
            "kind": "neli",
            "assignor": "range",
            "group": file.leader_group,
            "topic": file.leader_topic,
            "heartbeat_timeout": _written(heartbeat_timeout),
            "heartbeat_interval": _written(_seconds(file, "minPollInterval")),
            "margin": _written(min(DEFAULT_MARGIN, heartbeat_timeout / 10)),
        },
        "limits": {
            "records": file.limits["maxInFlightRecords"],
            "batch": file.limits["markQueryRecords"],
        },
        "polling": {"quick": _written(quick), "slow": _written(max(quick, SLOWEST_LOOK))},
    }
    content = {
        "database": {"dsn": as_libpq(file.data_source), "table": _table(file.outbox_table)},
        "kafka": {"bootstrap": bootstrap, "properties": properties, "producer": producer},
        "relay": relay,
        "log": {"level": LEVELS[file.level]},
    }
    return Translation(content, _ignored(file), warnings)


def _delivery_timeout(file: ReaperFile, longest: float) -> tuple[float, tuple[str, ...]]:
    """What the file says, if a successor is certain to wait that long; else the longest that is."""
    given = {key: file.producer_kafka[key] for key in TIMEOUT_NAMES if key in file.producer_kafka}
    key, value = next(iter(given.items()), ("delivery.timeout.ms", CLIENT_TIMEOUT))
    try:
        wanted = int(value) / 1000
    except (TypeError, ValueError):
        where = f"harvest.producerKafkaConfig.{key}"
        raise InvalidValue(where, repr(value), file.origin, "must be milliseconds") from None
    if 0 < wanted <= longest:
        return wanted, ()
    said = f"{key} of {wanted:g} s" if given else f"{key} is not set, and Kafka's {wanted:g} s"
    return longest, (
        f"{said} would outlast the take-over after {longest * 1.5:g} s, and a stale record could"
        f" follow newer ones; {longest:g} s is used",
    )


def _ignored(file: ReaperFile) -> tuple[str, ...]:
    names_of: dict[str, list[str]] = {}
    for name, reason in IGNORED.items():
        if name in file.given:
            names_of.setdefault(reason, []).append(name)
    found = [f"{', '.join(names)}: {reason}" for reason, names in names_of.items()]
    if file.level == "Off":
        found.append("logging.level Off: errors are always logged")
    return tuple(found)


def _table(name: str) -> str:
    """Written unquoted into SQL it was folded to lower case; here names are quoted."""
    parts = re.findall(r'"[^"]*"|[^".]+', name)
    return ".".join(part[1:-1] if part[0] == '"' else part.lower() for part in parts)


def _seconds(file: ReaperFile, name: str) -> float:
    value = file.limits[name]
    value = ELECTION_DEFAULTS.get(name) if value is None else value
    return (value or 0) / SECOND


def _written(seconds: float) -> str:
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
