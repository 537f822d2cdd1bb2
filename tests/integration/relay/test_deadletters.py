"""Held lanes and dead letters, moved on by hand beside a relay at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase, RelayKit, consume, wait_for
from tests.integration.relay.desks import (
    audit,
    dead_values,
    everything,
    holds,
    mend,
    opened,
    write_poison,
)
from tests.integration.relay.test_barrier import by_key
from windrow.outbox.errors import Blocked
from windrow.outbox.schema import migrate
from windrow.relay import desk as desk_module
from windrow.relay.deadletters import (
    discard_key,
    discard_letter,
    find_letter,
    list_entries,
    replay_key,
    retry_key,
    retry_letter,
    skip_key,
)
from windrow.relay.desk import Desk
from windrow.relay.errors import NotBlocked, OutOfOrder
from windrow.relay.policy import Policy, WhenExhausted

LANE = Policy(when_exhausted=WhenExhausted.DEAD_LETTER_LANE)
RECORD = Policy(when_exhausted=WhenExhausted.DEAD_LETTER_RECORD)


@pytest.fixture
def desk(outbox: OutboxDatabase) -> Iterator[Desk]:
    with opened(outbox) as desk:
        yield desk


def hold_a_key(outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, **more: Any) -> int:
    """Key ``bad`` waits behind a poisoned record; key ``good`` does not."""
    record = write_poison(outbox, topic, "bad", "poison")
    outbox.write(topic, [("bad", "next"), ("good", "1")])
    relay_kit.start(**more)
    wait_for(lambda: holds(outbox) == [("key", "bad", "held")], "the key is held")
    wait_for(lambda: outbox.count("kafka_key = 'good'") == 0, "the other is not")
    return record


def bury_a_key(outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, **more: Any) -> None:
    """Key ``bad`` is buried with three records."""
    write_poison(outbox, topic, "bad", "1")
    outbox.write(topic, [("bad", "2"), ("bad", "3"), ("good", "1")])
    relay_kit.start(policy_of=lambda topic: LANE, **more)
    wait_for(lambda: dead_values(outbox) == ["1", "2", "3"], "the lane is buried")


# -- a held key ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_held_key_that_is_tried_again_goes_on_in_its_order(
    mode: str, outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    record = hold_a_key(outbox, topic, relay_kit, mode=mode)
    mend(outbox)
    assert retry_key(desk, "bad").detail == f"record {record}"
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic)) == {"bad": ["poison", "next"], "good": ["1"]}
    assert audit(outbox) == [("retry", "key 'bad'", f"record {record}")]


def test_a_record_that_is_tried_again_has_all_its_attempts_before_it(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    record = hold_a_key(outbox, topic, relay_kit)
    relay_kit.stop()
    assert outbox.count(f"id = {record} AND attempts = 1") == 1
    retry_key(desk, "bad")
    assert outbox.count(f"id = {record} AND attempts = 0") == 1


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_skipped_record_is_dead_and_the_rest_of_its_key_goes_on(
    mode: str, outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    record = hold_a_key(outbox, topic, relay_kit, mode=mode)
    outcome = skip_key(desk, "bad", record=record)
    assert outcome.changed
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic)) == {"bad": ["next"], "good": ["1"]}
    (entry,) = list_entries(desk)
    assert (entry.kind, entry.record, entry.key) == ("dead", record, "bad")
    assert entry.error == "malformed: unequal number of header keys (2) and values (0)"
    assert outcome.detail == f"record {record}, now dead letter {entry.id}"


def test_a_skip_that_names_another_record_than_the_head_does_nothing(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    """Repeated by accident, it would skip the next one."""
    record = hold_a_key(outbox, topic, relay_kit)
    before = everything(outbox)
    assert not skip_key(desk, "bad", record=record + 1).changed
    assert everything(outbox) == before


def test_a_discarded_head_is_gone_and_the_rest_goes_on(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    hold_a_key(outbox, topic, relay_kit)
    assert discard_key(desk, "bad").changed
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic))["bad"] == ["next"]
    assert dead_values(outbox) == []


# -- a buried key --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_buried_key_takes_what_arrives_later_and_comes_back_in_order(
    mode: str, outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    bury_a_key(outbox, topic, relay_kit, mode=mode)
    outbox.write(topic, [("bad", "4"), ("good", "2")])
    wait_for(lambda: dead_values(outbox) == ["1", "2", "3", "4"], "what arrives follows")
    mend(outbox, "_dead")
    outbox.write(topic, [("bad", "5")])  # not swept yet, and still behind the dead ones
    assert replay_key(desk, "bad").detail.startswith("5 dead letters as ")
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic)) == {"bad": ["1", "2", "3", "4", "5"], "good": ["1", "2"]}
    assert dead_values(outbox) == []
    assert holds(outbox) == []


def test_a_replay_waits_for_a_service_that_has_drawn_an_id_and_not_committed(
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    relay_kit: RelayKit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its record was stashed after the dead ones, and its id is smaller than their new ones."""
    bury_a_key(outbox, topic, relay_kit)
    relay_kit.stop()
    mend(outbox, "_dead")
    monkeypatch.setattr(desk_module, "LOCK_TIMEOUT", 0.3)
    with outbox.connect() as service, opened(outbox) as desk:
        with service.transaction():
            service.execute(
                "INSERT INTO outbox (kafka_topic, kafka_key, kafka_value) VALUES (%s, 'bad', '4')",
                (topic,),
            )
            with pytest.raises(Blocked, match="not free within"):
                replay_key(desk, "bad")
            assert holds(outbox) == [("key", "bad", "buried")]
        replay_key(desk, "bad")
    relay_kit.start()
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic))["bad"] == ["1", "2", "3", "4"]


def test_a_replay_from_a_later_letter_leaves_those_before_it(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    bury_a_key(outbox, topic, relay_kit)
    second = next(e.id for e in list_entries(desk, key="bad") if e.kind == "dead" and e.record == 2)
    replay_key(desk, "bad", start=second)
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic))["bad"] == ["2", "3"]
    assert dead_values(outbox) == ["1"]


def test_a_discarded_burial_is_gone_whole_and_the_key_goes_on(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    bury_a_key(outbox, topic, relay_kit)
    assert discard_key(desk, "bad").detail == "3 dead letters"
    outbox.write(topic, [("bad", "4")])
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic))["bad"] == ["4"]
    assert dead_values(outbox) == []


def test_what_was_skipped_before_a_burial_is_not_replayed_with_it(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    hold_a_key(outbox, topic, relay_kit)
    skip_key(desk, "bad")
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    relay_kit.stop()
    write_poison(outbox, topic, "bad", "later")
    relay_kit.start(policy_of=lambda topic: LANE)
    wait_for(lambda: dead_values(outbox) == ["poison", "later"], "the lane is buried")
    mend(outbox, "_dead")
    replay_key(desk, "bad")
    wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic))["bad"] == ["next", "later"]
    assert dead_values(outbox) == ["poison"]


# -- a dead letter -------------------------------------------------------------------------------


def bury_a_record(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, key: str | None, **more: Any
) -> None:
    write_poison(outbox, topic, key, "poison")
    outbox.write(topic, [("bad", "next")])
    relay_kit.start(**more)
    wait_for(lambda: dead_values(outbox) == ["poison"], "the record is buried")
    wait_for(lambda: outbox.count() == 0, "and no other")
    mend(outbox, "_dead")


def test_a_dead_letter_goes_back_only_with_leave_to_be_out_of_order(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    bury_a_record(outbox, topic, relay_kit, "bad", policy_of=lambda topic: RECORD)
    (entry,) = list_entries(desk)
    assert entry.id is not None
    with pytest.raises(OutOfOrder, match="--out-of-order"):
        retry_letter(desk, entry.id)
    with pytest.raises(OutOfOrder):
        replay_key(desk, "bad")
    assert dead_values(outbox) == ["poison"]
    retry_letter(desk, entry.id, out_of_order=True)
    wait_for(lambda: outbox.count() == 0, "it is sent")
    assert by_key(consume(kafka, topic))["bad"] == ["next", "poison"]
    assert not retry_letter(desk, entry.id).changed


@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_a_record_without_a_key_is_buried_where_others_are_held_and_goes_back_freely(
    mode: str, outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    """It has no name to be held by; kept in memory, many of them would stop the relay."""
    bury_a_record(outbox, topic, relay_kit, None, mode=mode)
    (entry,) = list_entries(desk)
    assert entry.id is not None
    assert retry_letter(desk, entry.id).changed
    wait_for(lambda: outbox.count() == 0, "it is sent")
    assert by_key(consume(kafka, topic)) == {"bad": ["next"], "": ["poison"]}


def test_a_dead_letter_is_shown_whole_and_its_repr_hides_the_payload(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    hold_a_key(outbox, topic, relay_kit)
    skip_key(desk, "bad")
    (entry,) = list_entries(desk)
    letter = find_letter(desk, entry.id or 0)
    assert letter is not None
    assert (letter.topic, letter.key, letter.value) == (topic, "bad", b"poison")
    assert letter.headers == (("a", None), ("b", None))
    assert "poison" not in repr(letter)
    assert find_letter(desk, 999) is None


def test_a_discarded_letter_is_gone(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    bury_a_record(outbox, topic, relay_kit, "bad", policy_of=lambda topic: RECORD)
    (entry,) = list_entries(desk)
    assert discard_letter(desk, entry.id or 0).changed
    assert dead_values(outbox) == []
    assert not discard_letter(desk, entry.id or 0).changed
    assert [action for action, _, _ in audit(outbox)] == ["discard"]


# -- every verb ----------------------------------------------------------------------------------

VERBS: dict[str, Callable[..., Any]] = {
    "retry": retry_key,
    "skip": skip_key,
    "discard": discard_key,
    "replay": partial(replay_key, out_of_order=True),
}


@pytest.mark.parametrize("verb", ["retry", "skip", "discard"])
def test_a_dry_run_says_what_it_would_do_and_changes_nothing(
    verb: str, outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    record = hold_a_key(outbox, topic, relay_kit)
    relay_kit.stop()
    before = everything(outbox)
    outcome = VERBS[verb](desk, "bad", dry_run=True)
    assert outcome.changed
    assert f"record {record}" in outcome.detail
    assert everything(outbox) == before


def test_a_dry_replay_changes_nothing(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    bury_a_key(outbox, topic, relay_kit)
    relay_kit.stop()
    before = everything(outbox)
    assert replay_key(desk, "bad", dry_run=True).changed
    assert everything(outbox) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_repeated_finds_nothing_to_do_and_writes_nothing_down(
    verb: str, outbox: OutboxDatabase, topic: str, relay_kit: RelayKit, desk: Desk
) -> None:
    (bury_a_key if verb == "replay" else hold_a_key)(outbox, topic, relay_kit)
    relay_kit.stop()
    assert VERBS[verb](desk, "bad").changed
    before = everything(outbox)
    assert not VERBS[verb](desk, "bad").changed
    assert everything(outbox) == before
    assert [action for action, _, _ in audit(outbox)] == [verb]


@pytest.mark.parametrize(
    ("verb", "reason", "command"),
    [
        ("retry", "buried", "windrow deadletter replay bad"),
        ("retry", "paused", "windrow relay resume --key bad"),
        ("skip", "buried", "windrow deadletter replay bad"),
        ("skip", "paused", "windrow relay resume --key bad"),
        ("discard", "paused", "windrow relay resume --key bad"),
        ("replay", "held", "windrow deadletter retry --key bad"),
        ("replay", "paused", "windrow relay resume --key bad"),
    ],
)
def test_the_wrong_verb_is_refused_with_the_right_command(
    verb: str, reason: str, command: str, outbox: OutboxDatabase, desk: Desk
) -> None:
    with outbox.connect() as connection:
        connection.execute(
            "INSERT INTO outbox_hold (what, name, reason) VALUES ('key', 'bad', %s)", (reason,)
        )
    before = everything(outbox)
    with pytest.raises(NotBlocked, match=f"key 'bad' is {reason}.*{command}"):
        VERBS[verb](desk, "bad")
    assert everything(outbox) == before


def test_who_did_it_is_written_down_with_the_databases_own_name(
    outbox: OutboxDatabase, topic: str, relay_kit: RelayKit
) -> None:
    hold_a_key(outbox, topic, relay_kit)
    with opened(outbox, who="eve@laptop") as desk:
        retry_key(desk, "bad")
    with outbox.connect() as connection:
        (who, user) = connection.execute(
            "SELECT who, current_user FROM outbox_audit"
        ).fetchone() or ("", "")
    assert who == f"eve@laptop as {user}"


def test_a_table_of_goharvests_that_was_left_as_it_is_has_dead_letters_too(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit
) -> None:
    with outbox.connect() as connection:
        connection.execute("DROP TABLE outbox, outbox_migrations")
        connection.execute(
            "CREATE TABLE outbox (id BIGSERIAL PRIMARY KEY, create_time TIMESTAMPTZ NOT NULL,"
            " kafka_topic VARCHAR(249) NOT NULL, kafka_key VARCHAR(100) NOT NULL,"
            " kafka_value VARCHAR(10000), kafka_header_keys TEXT[] NOT NULL,"
            " kafka_header_values TEXT[] NOT NULL, leader_id UUID)"
        )
        migrate(connection, outbox.table, companions_only=True)
    hold_a_key(outbox, topic, relay_kit)
    with opened(outbox) as desk:
        skip_key(desk, "bad")
        wait_for(lambda: outbox.count() == 0, "the lane goes on")
        (entry,) = list_entries(desk)
        mend(outbox, "_dead")
        retry_letter(desk, entry.id or 0, out_of_order=True)
    wait_for(lambda: outbox.count() == 0, "it is sent")
    assert by_key(consume(kafka, topic))["bad"] == ["next", "poison"]
