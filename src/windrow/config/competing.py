"""The section of competing relays: how they share an outbox, and what if a send fails."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from windrow.config.section import Section
from windrow.types import Duration

Positive = Annotated[Duration, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Circuit(Section):
    """When a destination that does not answer is left alone, and for how long."""

    failures: Count = 5
    """Outages in a row after which nothing more is sent there."""
    open_for: Positive = 5.0
    """How long it is left alone before a single message tries whether it is back."""


class Competing(Section):
    """Several relays on one outbox, each message leased to one of them at a time: no order."""

    poll_interval: Positive = 0.01
    """How often the outbox is looked at while messages come."""
    idle_interval: Positive = 1.0
    """How often it is looked at after a long time with none."""
    patience: Positive = 0.5
    """How long ``poll_interval`` is kept up behind the last message before it slows down."""
    lock_expiry: Positive = 30.0
    """How long a claim holds: the time until another relay takes over from a dead one."""
    retry_delay: Positive = 1.0
    """The least pause before a message is tried again; the longest possible one doubles each time.
    """
    max_retry_delay: Positive = 300.0
    """The longest pause, whatever a receiver asks for."""
    max_attempts: Count = 10
    """Failures after which a message is a dead letter; while nobody answers none is counted.
    A try that ends with its relay is one; after half of them such messages are tried one at a time.
    """
    send_timeout: Positive = 10.0
    """How long a receiver may take to answer."""
    batch: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Messages of one claim, and of one finish."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Messages on their way at a time."""
    circuit: Circuit = Circuit()

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.max_retry_delay < self.retry_delay:
            raise ValueError("max_retry_delay is shorter than retry_delay; lengthen it")
        if self.idle_interval < self.poll_interval:
            raise ValueError("idle_interval is shorter than poll_interval; lengthen it")
        return self
