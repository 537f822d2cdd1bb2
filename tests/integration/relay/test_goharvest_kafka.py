"""What goharvest's unit tests ask of its Kafka clients, asked of the real client."""

from __future__ import annotations

import logging

import pytest

from tests.fixtures.relaying import wait_for
from windrow.embedded.ports import free_port
from windrow.errors import InvalidValue
from windrow.relay.targets.kafka import KafkaTarget
from windrow.relay.targets.kafka_transactions import KafkaTransactions


def test_a_property_unknown_to_the_producer_is_a_clear_error_without_its_secrets() -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "foo": "bar", "sasl.password": "hunter2"}
    with pytest.raises(InvalidValue, match="No such configuration property") as refused:
        KafkaTarget(config).open()
    assert "foo" in str(refused.value)
    assert "hunter2" not in str(refused.value)
    transactions = KafkaTransactions(config, transactional_id="t", state_topic="s")
    with pytest.raises(InvalidValue, match="No such configuration property"):
        transactions.fence()


def test_what_the_client_tells_beside_reports_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "windrow.kafka")
    target = KafkaTarget({"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    target.open()

    def is_told() -> bool:
        target.poll(0.05)
        return "Connection refused" in caplog.text

    wait_for(is_told, "that no broker is there")
    target.close(0.0)
    assert not target.failed
    assert not target.acknowledged


def test_a_target_that_was_never_opened_can_be_closed() -> None:
    assert KafkaTarget({}).close(1.0) == 0
