"""The sections of a relay: where records go, who leads, how much at a time, what if it fails."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from windrow.config.competing import Competing
from windrow.config.http import HttpDelivery
from windrow.config.secrets import Secret
from windrow.config.section import Section
from windrow.types import Duration

FORCED = ("enable.idempotence", "transactional.id", "delivery.report.only.error")

SECRET_KEY = re.compile(r"password|secret|jaas|token|credential|\.pem$|user\.info")
"""Properties whose values are secrets, though they are written like any other."""

KafkaValue = bool | int | float | str | Secret
Positive = Annotated[Duration, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Kafka(Section):
    """The brokers, and any property of librdkafka."""

    bootstrap: Annotated[str, Field(min_length=1)] = "localhost:9092"
    """Where clients begin: host:port, or several with commas."""
    properties: dict[str, KafkaValue] = Field(default_factory=dict)
    """Properties of every client, such as ``security.protocol``; secrets as for any other key."""
    producer: dict[str, KafkaValue] = Field(default_factory=dict)
    """Properties of the producer that sends records."""
    state_topic: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")] = "windrow.state"
    """Where transactional mode writes which batch was committed last."""

    @field_validator("properties", "producer")
    @classmethod
    def _leave_forced_alone(cls, properties: dict[str, KafkaValue]) -> dict[str, KafkaValue]:
        for key in FORCED:
            if key in properties:
                raise ValueError(f"cannot override configuration '{key}'")
        return {key: _hidden(key, value) for key, value in properties.items()}


def _hidden(key: str, value: KafkaValue) -> KafkaValue:
    return Secret(value) if isinstance(value, str) and SECRET_KEY.search(key) else value


class Election(Section):
    """Who leads."""

    kind: Literal["lease", "neli", "single"] = "lease"
    """A lease in the outbox database, goneli's way over Kafka, or none."""
    lease_ttl: Positive = 2.5
    """How long a lease is good for: the time until another takes over from a dead leader."""
    margin: Positive = 0.25
    """How long before the end of its right a leader stops sending."""
    group: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")] = "windrow"
    """neli: the consumer group that elects."""
    topic: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{0,249}$")] = ""
    """neli: the leader topic; by default the group's name with ``.neli``."""
    heartbeat_timeout: Positive = 5.0
    """neli: without a heartbeat for so long, a leader fences itself; a third of the session."""
    heartbeat_interval: Positive = 0.1
    """neli: time between two heartbeats."""
    assignor: Literal["cooperative-sticky", "range"] = "cooperative-sticky"
    """neli: ``range`` joins a group of goneli's."""

    @property
    def group_session(self) -> float:
        """neli: how long Kafka waits for a silent leader before it gives the lead away."""
        session = 3 * self.heartbeat_timeout
        return session - min(0.75, session / 4)


class Limits(Section):
    """How much a leader holds at a time."""

    batch: Count = 8_000
    """Rows of one mark, in barrier mode."""
    records: Count = 20_000
    """Rows held in memory."""
    bytes: Count = 64 * 1024 * 1024
    """Bytes of values held in memory."""
    lane: Count = 1_000
    """Rows of one key held in memory."""
    transaction: Count = 8_000
    """Rows of one transaction, in transactional mode."""


class Polling(Section):
    """How often an outbox is looked at that has nothing new."""

    quick: Positive = 0.001
    """Right after the last record."""
    slow: Positive = 1.25
    """After a long time with none."""
    patience: Positive = 0.05
    """How long ``quick`` is kept up before it slows down."""


class Retry(Section):
    """What happens to a record that fails."""

    max_attempts: Count = 10
    """Refusals after which patience ends; while the target is down none is counted."""
    base_delay: Positive = 0.1
    """The first pause, doubled each time."""
    max_delay: Positive = 30.0
    """The longest pause."""
    when_exhausted: Literal["hold", "dead-letter-record", "dead-letter-lane"] = "hold"
    """Hold the key, bury the record, or bury the record and what follows it in its key."""


class Relay(Section):
    """What moves records from the outbox to the target."""

    name: str = ""
    """How this relay is called in the lease, in logs and in heartbeats; by default made up."""
    target: Literal["kafka", "journal", "jsonl", "http"] = "kafka"
    """Kafka, a journal (exactly once), lines of JSON in a file (barrier mode only), or HTTP
    (competing mode only)."""
    journal: str = ""
    """journal: its name; it has to be labelled ``windrow.dev/sequenced``."""
    path: str = "-"
    """jsonl: the file to append to; ``-`` is standard output."""
    mode: Literal["barrier", "transactional", "competing"] = "barrier"
    """At least once with one record of a key at a time; exactly once, to a journal always; or
    several relays on one outbox, at least once and in no order, over HTTP always."""
    reader: Literal["mark", "diff"] = "mark"
    """Mark rows in the table, or remember them in memory (barrier mode only)."""
    shards: Annotated[int, Field(ge=1, le=256)] | None = None
    """How many relays may share the outbox, by key: a proposal, taken up once all relays that make
    one agree. By default it stays as it is."""
    doorbell: bool = False
    """Whether writers may wake a relay that has nothing to do; theirs is ``Outbox(doorbell=True)``.
    """
    pooler: bool = False
    """Whether a transaction pooler such as PgBouncer stands before the database."""
    delivery_timeout: Positive = 1.0
    """How long a producer may try; less than what is left of the right to lead."""
    drain_timeout: Positive = 10.0
    """How long a stop waits for what is on its way."""
    meter_interval: Duration = 5.0
    """The least time between two readings of how much is delivered."""
    election: Election = Election()
    limits: Limits = Limits()
    polling: Polling = Polling()
    retry: Retry = Retry()
    topics: dict[str, Retry] = Field(default_factory=dict)
    """Other rules for some topics."""
    competing: Competing = Competing()
    http: HttpDelivery = HttpDelivery()

    @model_validator(mode="before")
    @classmethod
    def _choose_mode(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if given.get("target") == "journal":
            return {"mode": "transactional"} | given
        if given.get("target") == "http":
            return {"mode": "competing"} | given
        return {"target": "http"} | given if given.get("mode") == "competing" else given

    @model_validator(mode="after")
    def _compete_over_http(self) -> Self:
        if (self.mode == "competing") != (self.target == "http"):
            raise ValueError(
                f"target {self.target!r} with mode {self.mode!r}: 'http' goes with 'competing'"
                " only, and so the other way round"
            )
        if self.mode == "competing" and not (self.http.url or self.http.routes):
            raise ValueError("target 'http' needs to know where to: set relay.http.url")
        return self

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.target == "journal" and self.mode == "barrier":
            raise ValueError("target 'journal' is exactly once: it goes with mode 'transactional'")
        if self.target == "journal" and not self.journal:
            raise ValueError("target 'journal' needs its name: set relay.journal")
        if self.mode == "transactional" and self.target == "jsonl":
            raise ValueError("target 'jsonl' has no transactions: it goes with mode 'barrier' only")
        if self.mode == "transactional" and self.reader == "diff":
            raise ValueError(
                "reader 'diff' keeps no batch name in the table: it goes with mode 'barrier' only"
            )
        if self.doorbell and self.pooler:
            raise ValueError(
                "a doorbell is heard on a connection of its own: it does not go with 'pooler'"
            )
        if self.shards is not None and self.election.kind == "single":
            raise ValueError(
                "election.kind 'single' is one relay for all: shards go with 'lease' and 'neli'"
            )
        election = self.election
        right = election.lease_ttl if election.kind == "lease" else election.group_session
        if self.mode == "barrier" and election.kind != "single":
            pulse = election.lease_ttl * 0.4 if election.kind == "lease" else 0.0
            if self.delivery_timeout + election.margin + pulse > right:
                raise ValueError(
                    f"delivery_timeout {self.delivery_timeout:g}s with margin {election.margin:g}s"
                    f" does not fit into a right to lead of {right:g}s; shorten it, or lengthen"
                    " lease_ttl"
                )
        return self
