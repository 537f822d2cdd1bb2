"""One suite for the outboxes that competing relays share: PostgreSQL, MariaDB and SQLite."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4, uuid5

import pytest

from tests.contract.claim_places import LONG_AGO, Place, new_place
from windrow.config.competing import Competing
from windrow.embedded.ports import free_port
from windrow.errors import OutcomeUnknown, Unreachable
from windrow.outbox import Outbox, Record, Table, WrongSchema
from windrow.outbox.claims import Burial, Claim, ClaimStore, Retry, Suspects, Topics, open_claims
from windrow.outbox.claims.opening import InvalidAddress
from windrow.relay.competing.contract import Delivered
from windrow.relay.competing.machine import CompetingMachine
from windrow.relay.competing.steps import ClaimRows, FinishRows, Rest

LEASE = 600.0
"""Longer than any test: a lease that is to end is ended by hand."""
ALL = Topics()
ODD = Table('odd `"% outbox')


SYSTEMS = ("postgresql", "mysql", "sqlite")


@pytest.fixture(scope="module", params=SYSTEMS)
def shared_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with new_place(request.param, request) as place:
        yield place


@pytest.fixture
def place(shared_place: Place) -> Iterator[Place]:
    """An outbox that is empty, and left empty for the next test."""
    yield shared_place
    shared_place.clear()


@pytest.fixture
def fresh_place(shared_place: Place) -> Iterator[Place]:
    """An outbox of another name in the same database, for tests that spoil theirs."""
    place = Place(shared_place.dsn, Table(f"t{secrets.token_hex(4)}"))
    place.prepare()
    with place.stack:
        yield place


@pytest.fixture
def store(place: Place) -> ClaimStore:
    return place.open()


def ids(claims: list[Claim]) -> list[int]:
    return [claim.id for claim in claims]


# -- what is due -------------------------------------------------------------------------------


def test_rows_are_claimed_the_oldest_first(place: Place, store: ClaimStore) -> None:
    rows = place.fill(5)
    assert ids(store.claim(uuid4(), 3, LEASE, ALL)) == rows[:3]
    assert ids(store.claim(uuid4(), 3, LEASE, ALL)) == rows[3:]
    assert store.claim(uuid4(), 3, LEASE, ALL) == []


def test_row_that_is_due_again_goes_before_later_ones(place: Place, store: ClaimStore) -> None:
    rows, token = place.fill(4), uuid4()
    store.claim(token, 2, LEASE, ALL)
    store.finish(token, [], [Retry(rows[0], 600, "no", True), Retry(rows[1], 600, "no", True)])
    place.expire(rows[1])
    assert ids(store.claim(uuid4(), 2, LEASE, ALL)) == [rows[1], rows[2]]


@pytest.mark.parametrize("shared_place", SYSTEMS[:2], indirect=True)
def test_nothing_committed_later_is_missed_below_what_was_claimed(
    place: Place, store: ClaimStore
) -> None:
    with place.connect(autocommit=False) as connection:
        early = Outbox().stash(connection, Record("t", "k"))
        (late,) = place.fill(1)
        assert ids(store.claim(uuid4(), 10, LEASE, ALL)) == [late]
        connection.commit()
    assert ids(store.claim(uuid4(), 10, LEASE, ALL)) == [early]
    assert early < late


@pytest.mark.parametrize("shared_place", SYSTEMS[:2], indirect=True)
def test_claims_under_way_are_stepped_over_and_not_waited_for(
    place: Place, store: ClaimStore
) -> None:
    rows = place.fill(6)
    with place.locked(rows[:2]):
        assert ids(store.claim(uuid4(), 3, LEASE, ALL)) == rows[2:5]
    assert ids(store.claim(uuid4(), 3, LEASE, ALL)) == [rows[0], rows[1], rows[5]]


def test_two_sessions_never_hold_the_same_row(place: Place, store: ClaimStore) -> None:
    rows, other = place.fill(4), place.open()
    assert ids(store.claim(uuid4(), 2, LEASE, ALL)) == rows[:2]
    assert ids(other.claim(uuid4(), 9, LEASE, ALL)) == rows[2:]


def test_only_topics_that_are_wanted_are_claimed(place: Place, store: ClaimStore) -> None:
    a, b, c = place.stash(Record("a"), Record("b"), Record("c"))
    assert store.claim(uuid4(), 9, LEASE, Topics((), are_wanted=True)) == []
    assert ids(store.claim(uuid4(), 9, LEASE, Topics(("b", "x"), are_wanted=True))) == [b]
    assert ids(store.claim(uuid4(), 9, LEASE, Topics(("c", "x")))) == [a]
    assert store.claim(uuid4(), 9, LEASE, Topics(("a", "b", "c"))) == []
    place.expire(a, b)
    assert ids(store.claim(uuid4(), 9, LEASE, Topics(("a",)))) == [b, c]


# -- leases ------------------------------------------------------------------------------------


def test_row_whose_lease_has_ended_goes_to_another_and_a_late_finish_changes_nothing(
    place: Place, store: ClaimStore
) -> None:
    (row,), first, second, other = place.fill(1), uuid4(), uuid4(), place.open()
    store.claim(first, 1, LEASE, ALL)
    assert other.claim(second, 1, LEASE, ALL) == []
    place.expire(row)
    assert ids(other.claim(second, 1, LEASE, ALL)) == [row]
    held = place.state(row)
    assert held[0] == str(second)

    assert store.finish(first, [row]) == {row}
    assert store.finish(first, [], [Retry(row, 1, "late", True)]) == {row}
    assert store.finish(first, [], [], [Burial(row, "late")]) == {row}
    assert store.renew(first, [row], 2 * LEASE) == {row}
    store.release(first, [row])
    assert place.state(row) == held
    assert place.sql("SELECT count(*) FROM {dead}") == [(0,)]
    assert other.finish(second, [row]) == set()
    assert place.count() == 0


def test_lease_ends_by_the_clock_of_the_database(place: Place, store: ClaimStore) -> None:
    (row,) = place.fill(1)
    assert ids(store.claim(uuid4(), 1, 0.05, ALL)) == [row]
    deadline = threading.Event()
    for _ in range(600):
        if ids(store.claim(uuid4(), 1, LEASE, ALL)) == [row]:
            break
        deadline.wait(0.05)
    else:
        pytest.fail("a lease of 50 ms has not ended")
    assert store.claim(uuid4(), 1, LEASE, ALL) == []


def test_claim_that_nobody_took_over_can_be_finished_after_its_lease(
    place: Place, store: ClaimStore
) -> None:
    (row,), token = place.fill(1), uuid4()
    store.claim(token, 1, LEASE, ALL)
    place.expire(row)
    assert store.finish(token, [row]) == set()
    assert place.count() == 0


def test_renewed_lease_lasts_longer(place: Place, store: ClaimStore) -> None:
    rows, token = place.fill(2), uuid4()
    store.claim(token, 2, LEASE, ALL)
    place.expire(*rows)
    assert store.renew(token, [rows[0], 999], LEASE) == {999}
    assert ids(store.claim(uuid4(), 9, LEASE, ALL)) == [rows[1]]
    assert store.renew(token, [], LEASE) == set()


def test_released_rows_are_as_if_never_claimed(place: Place, store: ClaimStore) -> None:
    rows, token = place.fill(2), uuid4()
    store.claim(token, 2, LEASE, ALL)
    store.release(token, [rows[0]])
    store.release(token, [])
    assert place.state(rows[0]) == (None, None, 0, None)
    assert ids(store.claim(uuid4(), 9, LEASE, ALL)) == [rows[0]]


# -- orphans -----------------------------------------------------------------------------------


def test_try_that_nobody_ended_is_counted_by_the_next_claim(
    place: Place, store: ClaimStore
) -> None:
    (row,) = place.fill(1)
    for attempts in range(3):
        (claim,) = store.claim(uuid4(), 1, LEASE, ALL)
        assert (claim.attempts, claim.is_orphan) == (attempts, attempts > 0)
        assert place.state(row)[2] == attempts
        place.expire(row)


def test_what_was_given_back_or_put_off_is_no_orphan(place: Place, store: ClaimStore) -> None:
    """So neither a relay that stops in good order nor a silent receiver uses up attempts."""
    rows, token = place.fill(2), uuid4()
    store.claim(token, 2, LEASE, ALL)
    store.release(token, rows[:1])
    store.finish(token, [], [Retry(rows[1], 0, "nobody is there", False)])
    claims = store.claim(uuid4(), 2, LEASE, ALL)
    assert [(claim.id, claim.attempts, claim.is_orphan) for claim in claims] == [
        (row, 0, False) for row in rows
    ]


def test_row_that_comes_back_to_its_own_holder_is_no_orphan(
    place: Place, store: ClaimStore
) -> None:
    (row,), token = place.fill(1), uuid4()
    store.claim(token, 1, LEASE, ALL)
    place.expire(row)
    (claim,) = store.claim(token, 1, LEASE, ALL, Suspects(attempts=1, limit=0))
    assert (claim.attempts, claim.is_orphan) == (0, False)


@pytest.mark.parametrize("topics", [ALL, Topics(("t",), are_wanted=True), Topics(("x",))])
def test_suspects_are_claimed_as_many_as_are_asked_for(
    place: Place, store: ClaimStore, topics: Topics
) -> None:
    rows = place.fill(4)
    store.claim(uuid4(), 3, LEASE, ALL)
    place.expire(*rows[:3])
    nobody, one = Suspects(attempts=1, limit=0), Suspects(attempts=1, limit=1)
    assert store.claim(uuid4(), 9, LEASE, Topics(("x",), are_wanted=True), one) == []
    assert ids(store.claim(uuid4(), 9, LEASE, topics, nobody)) == rows[3:]
    assert store.claim(uuid4(), 9, LEASE, topics, nobody) == []
    for row in rows[:2]:
        (claim,) = store.claim(uuid4(), 9, LEASE, topics, one)
        assert (claim.id, claim.attempts, claim.is_orphan) == (row, 1, True)
    assert ids(store.claim(uuid4(), 9, LEASE, topics, Suspects(attempts=2, limit=0))) == rows[2:3]


def test_burial_of_an_orphan_counts_no_further_try(place: Place, store: ClaimStore) -> None:
    (row,), token = place.fill(1), uuid4()
    store.claim(uuid4(), 1, LEASE, ALL)
    place.expire(row)
    store.claim(token, 1, LEASE, ALL)
    assert store.finish(token, [], [], [Burial(row, "b", counts=False)]) == set()
    assert place.sql("SELECT id, attempts FROM {dead}") == [(row, 1)]


@pytest.mark.parametrize("max_attempts", [1, 3, 10])
def test_message_that_kills_its_relay_becomes_a_dead_letter_and_all_others_are_delivered(
    place: Place, store: ClaimStore, max_attempts: int
) -> None:
    """A relay that dies is a machine and a token that are never heard of again."""
    rows = place.fill(20)
    poison, delivered, deaths = rows[7], list[int](), 0
    while place.count():
        some, has_died = relay_until_death(store, max_attempts, poison)
        delivered += some
        deaths += has_died
        place.sql(f"UPDATE {{outbox}} SET not_before = '{LONG_AGO}' WHERE leader_id IS NOT NULL")
        assert deaths <= max(2, max_attempts)
    assert place.sql("SELECT id, attempts FROM {dead}") == [(poison, deaths)]
    assert deaths == max(2, max_attempts)
    assert sorted(delivered) == [row for row in rows if row != poison]


def relay_until_death(store: ClaimStore, max_attempts: int, poison: int) -> tuple[list[int], bool]:
    """Deliver until nothing is left, or until the poison is sent."""
    settings = Competing(batch=6, concurrency=3, max_attempts=max_attempts)
    machine = CompetingMachine(settings, lambda topic: topic, lambda: 0.0)
    token, delivered, now = uuid4(), list[int](), 0.0
    while True:
        for claim in machine.to_send(now):
            if claim.id == poison:
                return delivered, True
            machine.on_outcome(claim.id, Delivered(), now)
        match machine.next_step(now):
            case ClaimRows() as step:
                claims = store.claim(token, step.limit, LEASE, step.topics, step.suspects)
                machine.on_claimed(step, claims, now, now)
                if not machine.held:
                    return delivered, False
            case FinishRows() as step:
                lost = store.finish(token, step.delivered, step.retries, step.burials)
                machine.on_finished(step, lost)
                delivered += step.delivered
            case Rest(until):
                now = until
            case step:
                pytest.fail(f"unexpected: {step}")


# -- ends --------------------------------------------------------------------------------------


def test_delay_of_a_retry_is_not_the_lease(place: Place, store: ClaimStore) -> None:
    rows, token = place.fill(2), uuid4()
    store.claim(token, 2, LEASE, ALL)
    retries = [Retry(rows[0], 0, "soon", True), Retry(rows[1], 10 * LEASE, "later", True)]
    assert store.finish(token, [], retries) == set()
    (again,) = store.claim(uuid4(), 9, LEASE, ALL)
    assert (again.id, again.attempts) == (rows[0], 1)
    leader, not_before, _, error = place.state(rows[1])
    assert (leader, error) == (None, "later")
    assert not_before is not None


def test_tries_count_only_where_they_are_said_to(place: Place, store: ClaimStore) -> None:
    (row,) = place.fill(1)
    for counts, attempts in ((True, 0), (False, 1), (True, 1), (True, 2)):
        token = uuid4()
        (claim,) = store.claim(token, 1, LEASE, ALL)
        assert claim.attempts == attempts
        assert store.finish(token, [], [Retry(row, 0, "no", counts)]) == set()
    assert place.state(row)[2:] == (3, "no")


def test_buried_rows_are_kept_whole(place: Place, store: ClaimStore) -> None:
    when = datetime(2026, 3, 29, 1, 2, 3, 456000, UTC)
    headers = [("a", "1"), ("a", None), ("ünï", "☃")]
    records = [
        Record("t", "key ☃", "text ☃", headers, 7, when),
        Record("t", None, b"\x00\xff%s"),
        Record("t"),
    ]
    rows, token = place.stash(*records), uuid4()
    columns = (
        "id, create_time, kafka_topic, kafka_key, kafka_value, kafka_value_bytes,"
        " kafka_header_keys, kafka_header_values, kafka_partition, kafka_timestamp"
    )
    before = place.sql(f"SELECT {columns} FROM {{outbox}} ORDER BY id")
    store.claim(token, 9, LEASE, ALL)
    store.finish(token, [], [Retry(rows[0], 0, "first", True)])
    store.claim(token, 9, LEASE, ALL)
    burials = [Burial(row, f"reason {row} ☃ \x00 \ud800") for row in rows]
    assert store.finish(token, [], [], burials) == set()
    assert place.count() == 0
    assert place.sql(f"SELECT {columns} FROM {{dead}} ORDER BY id") == before
    letters = place.sql("SELECT attempts, last_error, buried_at FROM {dead} ORDER BY id")
    assert [(count, text) for count, text, _ in letters] == [
        (2 if row == rows[0] else 1, f"reason {row} ☃ � ?") for row in rows
    ]
    assert all(buried_at for _, _, buried_at in letters)


def test_claims_of_one_batch_end_in_three_ways_at_once(place: Place, store: ClaimStore) -> None:
    rows, token = place.fill(4), uuid4()
    store.claim(token, 4, LEASE, ALL)
    lost = store.finish(
        token, [rows[0], 998], [Retry(rows[1], 600, "r", True)], [Burial(rows[2], "b")]
    )
    assert lost == {998}
    assert [row for (row,) in place.sql("SELECT id FROM {outbox} ORDER BY id")] == [
        rows[1],
        rows[3],
    ]
    assert place.sql("SELECT id FROM {dead}") == [(rows[2],)]
    assert place.state(rows[3])[0] == str(token)
    assert store.finish(token, []) == set()


def test_finish_that_is_repeated_changes_nothing_more(place: Place, store: ClaimStore) -> None:
    rows, token = place.fill(3), uuid4()
    store.claim(token, 3, LEASE, ALL)
    end = ([rows[0]], [Retry(rows[1], 600, "r", True)], [Burial(rows[2], "b")])
    assert store.finish(token, *end) == set()
    state = place.state(rows[1])
    assert store.finish(token, *end) == set(rows)
    assert place.state(rows[1]) == state
    assert place.sql("SELECT count(*) FROM {dead}") == [(1,)]


# -- what a claim says ---------------------------------------------------------------------------

CONTENTS = [
    Record("t", "key", "text"),
    Record("t", None, None),
    Record("t", "", ""),
    Record("t", "schlüssel ☃ 𝄞 ' \" \\ %s ?", "wert ☃ 𝄞 ' \" \\ %s {}"),
    Record("t", "k", bytes(range(256))),
    Record("t", "k", b""),
    Record("t", "k", "a\x00b"),
    Record("t", "k", "v", [("a", "1"), ("A", ""), ("a", None), ("ünï ☃", "\\ \" ' , {} []")]),
    Record("t", "k", "x" * 3_000_000),
]


def test_content_arrives_as_it_was_stashed(place: Place, store: ClaimStore) -> None:
    began = datetime.now(UTC)
    place.stash(*CONTENTS)
    claims = store.claim(uuid4(), 99, LEASE, ALL)
    assert [(c.topic, c.key, c.value, c.headers) for c in claims] == [
        (
            r.topic,
            r.key,
            r.value.encode() if isinstance(r.value, str) else r.value,
            tuple((name, value or "") for name, value in r.headers),
        )
        for r in CONTENTS
    ]
    assert all(abs(claim.created - began) < timedelta(minutes=5) for claim in claims)


def test_id_of_a_message_is_the_same_on_each_try_and_in_each_process(
    place: Place, store: ClaimStore
) -> None:
    rows = place.fill(2)
    claims = store.claim(uuid4(), 2, LEASE, ALL)
    place.expire(*rows)
    again = place.open().claim(uuid4(), 2, LEASE, ALL)
    assert [claim.message_id for claim in claims] == [claim.message_id for claim in again]
    assert claims[0].message_id != claims[1].message_id
    assert UUID(claims[0].message_id).version == 5
    (incarnation,) = place.sql(f"SELECT incarnation FROM {place.name('_source')}")[0]
    assert claims[0].message_id == str(uuid5(UUID(str(incarnation)), str(rows[0])))


def test_message_that_brings_its_own_id_keeps_it(place: Place, store: ClaimStore) -> None:
    place.stash(
        Record("t", headers={"message-id": "m-1"}),
        Record("t", headers=[("Message-Id", ""), ("CE-ID", "m-2"), ("ce_id", "m-3")]),
    )
    claims = store.claim(uuid4(), 9, LEASE, ALL)
    assert [claim.message_id for claim in claims] == ["m-1", "m-2"]


# -- connections and schema ----------------------------------------------------------------------


@pytest.mark.parametrize("act", ["claim", "finish", "renew", "release"])
def test_lost_connection_is_an_unknown_outcome_and_the_next_call_has_a_new_one(
    place: Place, store: ClaimStore, act: str
) -> None:
    (row,), token = place.fill(1), uuid4()
    store.claim(token, 1, LEASE, ALL)
    place.cut(store)
    acts: dict[str, Callable[[], object]] = {
        "claim": lambda: store.claim(uuid4(), 1, LEASE, ALL),
        "finish": lambda: store.finish(token, [row]),
        "renew": lambda: store.renew(token, [row], LEASE),
        "release": lambda: store.release(token, [row]),
    }
    with pytest.raises(OutcomeUnknown):
        acts[act]()
    acts[act]()
    if act == "claim":
        with contextlib.suppress(OutcomeUnknown):  # claims may have a connection of their own
            store.renew(token, [row], LEASE)
    assert store.finish(token, [row]) == ({row} if act in ("finish", "release") else set())


def test_outbox_that_is_not_there_is_named_with_what_to_run(place: Place) -> None:
    store = open_claims(place.dsn, Table("nowhere"))
    with pytest.raises(WrongSchema, match=r"nowhere does not exist; run: windrow init"):
        store.open()
    store.close()


def test_column_that_is_missing_is_named(fresh_place: Place) -> None:
    fresh_place.sql("ALTER TABLE {outbox} DROP COLUMN last_error")
    store = open_claims(fresh_place.dsn, fresh_place.table)
    with pytest.raises(WrongSchema, match=r"has no column .*last_error"):
        store.open()
    store.close()


def test_odd_name_of_a_table_is_only_a_name(shared_place: Place) -> None:
    place = Place(shared_place.dsn, ODD)
    place.prepare()
    with place.stack:
        store, rows, token = place.open(), place.fill(3), uuid4()
        assert ids(store.claim(token, 3, LEASE, Topics(("x",)))) == rows
        store.finish(token, rows[:1], [Retry(rows[1], 1, "r", True)], [Burial(rows[2], "b")])
        assert place.count() == 1


def test_address_of_no_database_is_refused_without_being_quoted() -> None:
    with pytest.raises(InvalidAddress) as refused:
        open_claims("oracle://me:q7secret@host/db", Table())
    assert "q7secret" not in str(refused.value)


def test_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    store = open_claims(f"sqlite:///{tmp_path}/no.db", Table())
    with pytest.raises(Unreachable, match="unable to open"):
        store.open()
    assert not (tmp_path / "no.db").exists()


def test_server_that_refuses_is_named_without_its_password() -> None:
    address = f"127.0.0.1:{free_port()}"
    store = open_claims(f"mysql://me:q7secret@{address}/db", Table())
    with pytest.raises(Unreachable, match=address) as refused:
        store.open()
    assert "q7secret" not in f"{refused.value} {refused.value.__cause__}"


# -- many at once --------------------------------------------------------------------------------


def test_thousands_of_rows_are_claimed_by_four_at_once_each_exactly_once(place: Place) -> None:
    rows = place.fill(2_000)
    stores = [place.open() for _ in range(4)]
    seen: Counter[int] = Counter()
    begin = threading.Barrier(4)

    def claim_some(store: ClaimStore) -> list[int]:
        token = uuid4()
        claims = ids(store.claim(token, 50, LEASE, ALL))
        done = [row for row in claims if row % 3]
        later = [Retry(row, LEASE, "again", True) for row in claims if row % 3 == 0]
        assert store.finish(token, done, later) == set()
        return claims

    def claim_all(store: ClaimStore) -> list[int]:
        begin.wait()
        return [row for some in iter(lambda: claim_some(store), []) for row in some]

    with ThreadPoolExecutor(4) as pool:
        for taken in pool.map(claim_all, stores):
            seen.update(taken)
    # Whoever found nothing may have looked while others had it locked.
    for some in iter(lambda: claim_some(stores[0]), []):
        seen.update(some)
    assert seen == Counter(rows)
    assert place.count() == sum(1 for row in rows if row % 3 == 0)
