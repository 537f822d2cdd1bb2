"""Does this relay put a key where Java's clients would? Pure."""

from __future__ import annotations

from windrow.config import Config
from windrow.outbox.health import Finding
from windrow.relay.targets.kafka import DEFAULTS


def partitioner_of(config: Config) -> str:
    """The name of the partitioner that the producer is made with."""
    chosen = {**DEFAULTS, **config.kafka.properties, **config.kafka.producer}["partitioner"]
    return str(chosen)


def judge_partitioner(config: Config) -> list[Finding]:
    """A note if keys lie elsewhere than a Java client looks for them."""
    chosen = partitioner_of(config)
    if chosen == DEFAULTS["partitioner"]:
        return []
    text = f"is {chosen}: a key lies on another partition than Java's clients put it on"
    if chosen == "consistent_random":
        text += ", and on the same as goharvest's"
    advice = (
        f"leave it while keys are in use; a change to {DEFAULTS['partitioner']} moves them once"
    )
    return [Finding("note", "partitioner", text, advice)]
