"""From the configuration to the parts of a relay."""

from __future__ import annotations

import pytest

from windrow.config import Config
from windrow.errors import WindrowError
from windrow.relay.assembly import kafka_properties, policy_of
from windrow.relay.policy import WhenExhausted


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
        ({"delivery_timeout": 9.0}, "does not fit into a right to lead of 2.5s"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    relay: dict[str, object], problem: str
) -> None:
    with pytest.raises((ValueError, WindrowError), match=problem):
        Config.model_validate({"relay": relay})
