"""Pause and resume, beside a relay at work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.relaying import OutboxDatabase, RelayKit, consume, wait_for
from tests.integration.relay.desks import audit, everything, holds, opened
from tests.integration.relay.test_barrier import by_key
from windrow.embedded.kafka import create_topic
from windrow.relay.desk import Desk
from windrow.relay.errors import NotBlocked
from windrow.relay.holds import Subject, pause, resume


@pytest.fixture
def desk(outbox: OutboxDatabase) -> Iterator[Desk]:
    with opened(outbox) as desk:
        yield desk


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_paused_key_stays_in_the_outbox_and_goes_on_in_order(
    mode: str, outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    pause(desk, Subject("key", "a"), "the customer asked for it")
    relay_kit.start(mode=mode)
    outbox.write(topic, [("a", "1"), ("b", "1"), ("a", "2")])
    wait_for(lambda: outbox.count() == 2, "the other key is sent")
    outbox.write(topic, [("b", "2")])
    wait_for(lambda: outbox.count("kafka_key = 'b'") == 0, "and goes on")
    assert outbox.count("kafka_key = 'a'") == 2
    resume(desk, Subject("key", "a"))
    wait_for(lambda: outbox.count() == 0, "it goes on")
    assert by_key(consume(kafka, topic)) == {"a": ["1", "2"], "b": ["1", "2"]}
    assert [(action, subject) for action, subject, _ in audit(outbox)] == [
        ("pause", "key 'a'"),
        ("resume", "key 'a'"),
    ]


def test_a_paused_topic_waits_and_others_do_not(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    other = f"{topic}-other"
    create_topic(kafka, other)
    pause(desk, Subject("topic", topic))
    relay_kit.start()
    outbox.write(topic, [("a", "1")])
    outbox.write(other, [("b", "1")])
    wait_for(lambda: outbox.count() == 1, "the other topic is sent")
    assert by_key(consume(kafka, other)) == {"b": ["1"]}
    resume(desk, Subject("topic", topic))
    wait_for(lambda: outbox.count() == 0, "it goes on")


def test_a_paused_relay_sends_nothing_at_all(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    pause(desk, Subject())
    relay = relay_kit.start()
    wait_for(lambda: relay.is_leader, "it leads")
    outbox.write(topic, [("a", "1"), ("b", "1")])
    pause(desk, Subject("key", "a"))
    assert resume(desk, Subject()).detail == "still paused: key 'a'"
    wait_for(lambda: outbox.count() == 1, "all but the key goes on")
    assert by_key(consume(kafka, topic)) == {"b": ["1"]}


def test_pause_and_resume_may_be_repeated(outbox: OutboxDatabase, desk: Desk) -> None:
    assert pause(desk, Subject("key", "a")).changed
    assert not pause(desk, Subject("key", "a")).changed
    assert holds(outbox) == [("key", "a", "paused")]
    assert resume(desk, Subject("key", "a")).changed
    assert not resume(desk, Subject("key", "a")).changed
    assert holds(outbox) == []
    assert [action for action, _, _ in audit(outbox)] == ["pause", "resume"]


def test_a_dry_run_pauses_nothing(outbox: OutboxDatabase, desk: Desk) -> None:
    assert pause(desk, Subject(), dry_run=True).changed
    assert holds(outbox) == []
    pause(desk, Subject())
    assert resume(desk, Subject(), dry_run=True).changed
    assert holds(outbox) == [("relay", "", "paused")]


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        ("held", "windrow deadletter retry --key 'a b'"),
        ("buried", "windrow deadletter replay 'a b'"),
    ],
)
def test_a_key_that_waits_for_a_person_is_neither_paused_nor_resumed(
    reason: str, command: str, outbox: OutboxDatabase, desk: Desk
) -> None:
    """Resumed, it would go on past a record about which nobody has decided."""
    with outbox.connect() as connection:
        connection.execute("INSERT INTO outbox_hold VALUES ('key', 'a b', %s)", (reason,))
    before = everything(outbox)
    with pytest.raises(NotBlocked, match=f"'a b' is {reason}, not paused; run: {command}"):
        resume(desk, Subject("key", "a b"))
    with pytest.raises(NotBlocked, match=f"'a b' is {reason} already; run: {command}"):
        pause(desk, Subject("key", "a b"))
    assert everything(outbox) == before
