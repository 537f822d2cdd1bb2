"""Leadership by a row with an expiry, against a real PostgreSQL."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase, wait_for
from tests.integration.relay.contending import (
    Claim,
    ProcessContender,
    ThreadContender,
    check_disjoint,
    claims_of,
    leader_of,
    leads,
    started_process,
)
from windrow.clock import ManualClock
from windrow.embedded.link import Link
from windrow.errors import Unreachable
from windrow.outbox.errors import DatabaseFailed
from windrow.relay.election.leading import Leading
from windrow.relay.election.postgres_lease import PostgresLease, lease_session

TTL = 1.0
MakeLease = Callable[..., PostgresLease]


@pytest.fixture
def lease(outbox: OutboxDatabase) -> Iterator[MakeLease]:
    """Makes contenders for the one lease of the test's outbox."""
    made: list[PostgresLease] = []

    def make(name: str = "me", *, pooler: bool = False, **settings: Any) -> PostgresLease:
        session = lease_session(settings.pop("dsn", outbox.dsn), pooler=pooler)
        made.append(PostgresLease(session, outbox.table, name, **{"lease_ttl": TTL, **settings}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def epoch_in(outbox: OutboxDatabase) -> int:
    with outbox.connect() as connection:
        row = connection.execute("SELECT epoch FROM outbox_epoch WHERE shard = 0").fetchone()
        assert row is not None
        return int(row[0])


def won(leading: Leading | None) -> Leading:
    assert leading is not None
    return leading


def test_the_first_to_ask_leads_under_the_first_epoch(
    lease: MakeLease, outbox: OutboxDatabase
) -> None:
    before = time.monotonic()
    leading = won(lease().pulse())
    assert leading.epoch == epoch_in(outbox) == 1
    assert before + TTL <= leading.valid_until <= time.monotonic() + TTL


def test_of_two_contenders_one_leads_and_stays_leader(lease: MakeLease) -> None:
    first, second = lease("first"), lease("second")
    epochs = set()
    deadline = time.monotonic() + 3 * TTL
    while time.monotonic() < deadline:
        epochs.add(won(first.pulse()).epoch)
        assert second.pulse() is None
        time.sleep(0.05)
    assert len(epochs) == 1  # a renewal keeps the epoch


def test_a_lease_that_ran_out_is_taken_over_with_a_new_epoch_and_never_before(
    lease: MakeLease, outbox: OutboxDatabase
) -> None:
    first, second = lease("first"), lease("second")
    old = won(first.pulse())
    began = time.monotonic()
    wait_for(lambda: second.pulse() is not None, "it takes over", timeout=TTL + 2.0)
    assert time.monotonic() >= old.valid_until
    print(f"lease take-over after silence: {time.monotonic() - began:.2f} s, lease {TTL:.1f} s")
    assert epoch_in(outbox) == old.epoch + 1
    assert first.pulse() is None
    assert won(second.pulse()).epoch == old.epoch + 1


def test_a_holder_that_was_late_but_not_succeeded_keeps_its_epoch(
    lease: MakeLease, outbox: OutboxDatabase
) -> None:
    only = lease()
    first = won(only.pulse())
    wait_for(lambda: time.monotonic() > first.valid_until + 0.1, "it has run out")
    assert won(only.pulse()).epoch == first.epoch


def test_a_resignation_frees_the_lease_at_once(lease: MakeLease) -> None:
    first, second = lease("first"), lease("second")
    old = won(first.pulse())
    assert second.pulse() is None
    first.resign()
    assert won(second.pulse()).epoch == old.epoch + 1
    assert time.monotonic() < old.valid_until


def test_the_resignation_of_one_who_does_not_lead_changes_nothing(lease: MakeLease) -> None:
    first, second = lease("first"), lease("second")
    leading = won(first.pulse())
    second.pulse()
    second.resign()
    assert second.pulse() is None
    assert won(first.pulse()).epoch == leading.epoch


def test_a_leader_that_resigned_leads_again_under_a_new_epoch(lease: MakeLease) -> None:
    only = lease()
    first = won(only.pulse())
    only.resign()
    assert won(only.pulse()).epoch == first.epoch + 1


def test_two_processes_of_one_name_do_not_share_the_lease(lease: MakeLease) -> None:
    """One configuration file on two machines, or a restart while the first still runs."""
    first, namesake = lease("relay"), lease("relay")
    leading = won(first.pulse())
    assert namesake.pulse() is None
    namesake.resign()
    assert won(first.pulse()).epoch == leading.epoch


def test_the_clock_of_the_client_does_not_matter(lease: MakeLease) -> None:
    ahead = lease("ahead", clock=ManualClock(now=1e9, epoch=4e9))
    behind = lease("behind", clock=ManualClock(now=5.0, epoch=0.0))
    assert won(ahead.pulse()).valid_until == 1e9 + TTL
    assert behind.pulse() is None
    ahead.resign()
    assert won(behind.pulse()).valid_until == 5.0 + TTL
    assert ahead.pulse() is None


@pytest.mark.parametrize("pooler", [False, True])
def test_threads_that_race_from_the_very_first_statement_never_lead_together(
    lease: MakeLease, outbox: OutboxDatabase, pooler: bool
) -> None:
    """Each takes the lease, gives it back and goes on; the database has to tell them apart."""
    gate = threading.Barrier(8)
    claims: list[Claim] = []

    def race(number: int) -> None:
        contender = lease(f"racer-{number}", pooler=pooler)
        gate.wait()
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            leading = contender.pulse()
            begin = time.monotonic()
            if leading is not None:
                end = min(time.monotonic(), leading.valid_until)
                claims.append(Claim(begin, end, leading.epoch, str(number)))
                contender.resign()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(race, number) for number in range(8)]:
            done.result()
    claims.sort()
    assert len(claims) > 20
    assert len({claim.who for claim in claims}) > 2
    for earlier, later in itertools.pairwise(claims):
        assert earlier.end <= later.begin, f"two led at once: {earlier} and {later}"
        assert earlier.epoch < later.epoch
    assert epoch_in(outbox) == claims[-1].epoch == len(claims)


def test_threads_that_race_for_a_lease_that_runs_out_never_lead_together(
    lease: MakeLease,
) -> None:
    racers = [ThreadContender(f"racer-{n}", lease(f"racer-{n}", lease_ttl=0.5)) for n in range(6)]
    for _ in range(4):
        leader = leader_of(racers, timeout=10.0)
        # It falls silent without a word, as if its thread were gone.
        leader.election.resign = lambda: None
        leader.stop()
        racers_left = [racer for racer in racers if racer.thread.is_alive()]
        leader_of(racers_left, timeout=10.0)
    for racer in racers:
        racer.stop()
    assert len({claim.epoch for claim in check_disjoint(racers)}) >= 5


def test_a_session_without_answer_is_a_failure_and_the_next_pulse_connects_again(
    lease: MakeLease, outbox: OutboxDatabase
) -> None:
    with Link.start(_target_of(outbox.dsn)) as link:
        contender = lease(dsn=_through(link, outbox.dsn))
        first = won(contender.pulse())
        link.cut()
        with pytest.raises((Unreachable, DatabaseFailed)):
            contender.pulse()
        link.restore()
        wait_for(lambda: _retried(contender) is not None, "it is connected again")
        assert won(contender.pulse()).epoch == first.epoch


def test_a_slow_answer_shortens_the_right_and_never_stretches_it(
    lease: MakeLease, outbox: OutboxDatabase
) -> None:
    with Link.start(_target_of(outbox.dsn)) as link:
        contender = lease(dsn=_through(link, outbox.dsn))
        won(contender.pulse())
        link.delay(0.2)
        asked_at = time.monotonic()
        leading = won(contender.pulse())
        assert time.monotonic() - asked_at >= 0.4
        assert leading.valid_until - asked_at == pytest.approx(TTL, abs=0.1)


def test_somebody_who_locks_the_row_by_hand_delays_a_pulse_no_longer_than_the_lease(
    lease: MakeLease, outbox: OutboxDatabase
) -> None:
    """A forgotten transaction must not hang the thread that has to see the right run out."""
    contender = lease()
    leading = won(contender.pulse())
    with outbox.connect() as connection, connection.transaction():
        connection.execute("SELECT FROM outbox_lease FOR UPDATE")
        began = time.monotonic()
        with pytest.raises(DatabaseFailed, match="lock timeout"):
            contender.pulse()
        assert time.monotonic() - began < TTL + 0.5
    assert won(contender.pulse()).epoch == leading.epoch


# -- processes that die and sleep ----------------------------------------------------------------


@pytest.fixture
def processes(outbox: OutboxDatabase, tmp_path: Path) -> Iterator[list[ProcessContender]]:
    """Two contenders in processes of their own, one of them leading."""
    with ExitStack() as stack:
        started: list[ProcessContender] = []
        for name in ("a", "b"):
            process = started_process(name, tmp_path, "lease", dsn=outbox.dsn, lease_ttl=TTL)
            started.append(stack.enter_context(process))
            leader_of(started)
            wait_for(lambda: len(started[-1].notes()) > 2, "it pulses")
        yield started


def test_a_killed_leader_is_succeeded_when_its_lease_has_run_out(
    processes: list[ProcessContender],
) -> None:
    leader = leader_of(processes)
    successor = next(p for p in processes if p is not leader)
    leader.kill()
    killed_at = time.monotonic()
    leader_of([successor], timeout=TTL + 5.0)
    taken = check_disjoint(processes)[-1].begin - killed_at
    print(f"lease take-over after kill -9: {taken:.2f} s, lease {TTL:.1f} s")
    assert taken < 4 * TTL


@pytest.mark.parametrize("share", [0.4, 1.0, 2.5])
def test_a_leader_that_slept_never_leads_beside_another(
    processes: list[ProcessContender], share: float
) -> None:
    for _ in range(2):
        sleeper = leader_of(processes)
        other = next(p for p in processes if p is not sleeper)
        sleeper.pause()
        time.sleep(share * TTL)  # the pause is what is tested
        if share > 2:
            leader_of([other])
        woken = sleeper.wake(0.7)
        leader_of(processes)
        if share > 2:
            assert not any(note.is_valid for note in woken)
            assert leads(other)
    check_disjoint(processes)


def test_a_clean_stop_of_the_process_is_taken_over_by_the_next_pulse(
    processes: list[ProcessContender],
) -> None:
    leader = leader_of(processes)
    successor = next(p for p in processes if p is not leader)
    leader.stop()
    stopped_at = leader.notes()[-1].at
    leader_of([successor], timeout=5.0)
    taken = claims_of(successor)[0].begin - stopped_at
    print(f"lease take-over after SIGTERM: {taken:.2f} s")
    assert taken < TTL  # else it was not handed over, but ran out
    check_disjoint(processes)


def _target_of(dsn: str) -> Any:
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(dsn)
    host, port = str(parts["host"]), parts["port"]
    return Path(host) / f".s.PGSQL.{port}" if host.startswith("/") else (host, int(str(port)))


def _through(link: Link, dsn: str) -> str:
    from psycopg.conninfo import make_conninfo

    return make_conninfo(dsn, host="127.0.0.1", port=link.port)


def _retried(contender: PostgresLease) -> Leading | None:
    try:
        return contender.pulse()
    except (Unreachable, DatabaseFailed):
        return None
