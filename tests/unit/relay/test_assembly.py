"""From the configuration to the parts of a relay."""

from __future__ import annotations

import pytest

from windrow.config import Config
from windrow.errors import WindrowError
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.relay.assembly import assemble, kafka_properties, policy_of
from windrow.relay.policy import WhenExhausted
from windrow.relay.road import TransactionRoad
from windrow.relay.targets.journal import JournalTarget
from windrow.telemetry.events import EventBus

JOURNAL = {"target": "journal", "journal": "a/journal"}


def test_a_topic_overrides_only_what_it_says() -> None:
    config = Config.model_validate(
        {
            "relay": {
                "retry": {"max_attempts": 3, "base_delay": 2.0},
                "topics": {"clicks": {"when_exhausted": "dead-letter-record"}},
            }
        }
    )
    clicks, other = policy_of(config.relay)("clicks"), policy_of(config.relay)("other")
    assert (
        (clicks.max_attempts, clicks.base_delay)
        == (3, 2.0)
        == (
            other.max_attempts,
            other.base_delay,
        )
    )
    assert clicks.when_exhausted is WhenExhausted.DEAD_LETTER_RECORD
    assert other.when_exhausted is WhenExhausted.HOLD


def test_secrets_are_revealed_to_the_client_and_to_nobody_else() -> None:
    config = Config.model_validate({"kafka": {"properties": {"sasl.password": "hush"}}})
    assert kafka_properties(config)["sasl.password"] == "hush"
    assert "hush" not in f"{config!r} {config.model_dump_json()}"


@pytest.mark.parametrize(
    ("relay", "problem"),
    [
        ({"mode": "transactional", "reader": "diff"}, "goes with mode 'barrier' only"),
        ({"mode": "transactional", "target": "jsonl"}, "goes with mode 'barrier' only"),
        ({**JOURNAL, "mode": "barrier"}, "it goes with mode 'transactional'"),
        ({**JOURNAL, "reader": "diff"}, "goes with mode 'barrier' only"),
        ({"delivery_timeout": 9.0}, "does not fit into a right to lead of 2.5s"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    relay: dict[str, object], problem: str
) -> None:
    with pytest.raises((ValueError, WindrowError), match=problem):
        Config.model_validate({"relay": relay})


def test_a_relay_to_a_journal_names_batches_and_makes_the_names_durable() -> None:
    """R3: a name that a crash takes away after the append would have its rows appended again."""
    road = assemble(Config.model_validate({"relay": JOURNAL}), EventBus()).road_of(0)
    assert isinstance(road, TransactionRoad)
    assert isinstance(road.target, JournalTarget)
    assert isinstance(road.store, PostgresBatches)
    assert road.store._reading._settings["synchronous_commit"] == "on"
