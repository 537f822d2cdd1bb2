from __future__ import annotations

from typing import Any

from tests.unit.relay.competing.memory import claim_of
from windrow.config.competing import Competing
from windrow.relay.competing.contract import (
    Burial,
    Claim,
    Delivered,
    Later,
    Outcome,
    Refused,
    Retry,
    Suspects,
    Topics,
)
from windrow.relay.competing.events import (
    CircuitClosed,
    CircuitOpened,
    LeasesLost,
    MessageBuried,
    MessageFailed,
)
from windrow.relay.competing.machine import LINGER, CompetingMachine
from windrow.relay.competing.steps import (
    Abandon,
    ClaimRows,
    End,
    FinishRows,
    ReleaseRows,
    RenewRows,
    Rest,
    Step,
)

OUTAGE = Later("connection refused", is_outage=True)
ONE = Suspects(attempts=1, limit=1)
"""Of three attempts, those after the first are made alone."""


class Driver:
    """A machine, its clock, and the least that a shell does."""

    def __init__(self, **settings: Any) -> None:
        given = {"batch": 4, "concurrency": 2, "lock_expiry": 30.0, "max_attempts": 3} | settings
        self.machine = CompetingMachine(
            Competing.model_validate(given), lambda topic: topic.partition("/")[0], lambda: 0.5
        )
        self.now = 100.0

    def step(self) -> Step:
        return self.machine.next_step(self.now)

    def pass_time(self, seconds: float) -> Step:
        self.now += seconds
        return self.step()

    def claim(self, *claims: Claim | int) -> list[int]:
        """Have these rows claimed, and return what is to be sent of all."""
        step = self.step()
        assert isinstance(step, ClaimRows), step
        rows = [claim_of(claim) if isinstance(claim, int) else claim for claim in claims]
        self.machine.on_claimed(step, rows, self.now, self.now)
        return self.send()

    def send(self) -> list[int]:
        return [claim.id for claim in self.machine.to_send(self.now)]

    def answer(self, row: int, outcome: Outcome | None = None) -> bool:
        return self.machine.on_outcome(row, outcome or Delivered(), self.now)

    def finish(self, *lost: int) -> FinishRows:
        step = self.step()
        assert isinstance(step, FinishRows), step
        self.machine.on_finished(step, set(lost))
        return step

    def told(self) -> list[Any]:
        return list(self.machine.take_events())


# -- claiming ------------------------------------------------------------------------------------


def test_first_step_is_a_claim_of_one_batch_of_all_topics() -> None:
    assert Driver().step() == ClaimRows(4, Topics(), ONE)


def test_no_more_is_sent_at_a_time_than_allowed() -> None:
    driver = Driver()
    assert driver.claim(1, 2, 3, 4) == [1, 2]
    assert driver.send() == []
    driver.answer(1)
    assert driver.send() == [3]
    assert driver.machine.sending == 2


def test_full_queue_is_not_added_to() -> None:
    driver = Driver()
    driver.claim(1, 2, 3, 4)
    driver.claim(5, 6, 7, 8)
    assert isinstance(driver.step(), Rest)


def test_queue_is_filled_up_again_while_messages_are_on_their_way() -> None:
    driver = Driver()
    driver.claim(1, 2, 3, 4)
    assert driver.step() == ClaimRows(2, Topics(), ONE)


def test_outbox_is_looked_at_again_at_once_while_there_is_a_backlog() -> None:
    driver = Driver(concurrency=100)
    driver.claim(1, 2, 3, 4)
    assert isinstance(driver.step(), ClaimRows)


def test_outbox_with_few_rows_is_looked_at_again_after_the_poll_interval() -> None:
    driver = Driver(poll_interval=0.01)
    driver.claim(1)
    driver.answer(1)
    driver.finish()
    assert driver.step() == Rest(100.0 + 0.01)
    assert isinstance(driver.pass_time(0.01), ClaimRows)


def test_idle_outbox_is_looked_at_once_a_second() -> None:
    driver = Driver(poll_interval=0.01, idle_interval=1.0, patience=0.5)
    looks = []
    while driver.now < 160:
        step = driver.step()
        if isinstance(step, ClaimRows):
            looks.append(driver.now)
            driver.machine.on_claimed(step, [], driver.now, driver.now)
        else:
            assert isinstance(step, Rest)
            driver.now = step.until
    assert len([look for look in looks if look > 110]) <= 50


def test_idle_outbox_with_an_open_circuit_is_asked_no_more_than_twice_a_second() -> None:
    driver = Driver(
        poll_interval=0.01,
        idle_interval=1.0,
        patience=0.5,
        circuit={"failures": 1, "open_for": 1.0},
    )
    driver.claim(1)
    driver.answer(1, OUTAGE)
    driver.finish()
    looks = []
    while driver.now < 160:
        step = driver.step()
        if isinstance(step, ClaimRows):
            looks.append(driver.now)
            driver.machine.on_claimed(step, [], driver.now, driver.now)
        else:
            assert isinstance(step, Rest)
            assert step.until > driver.now
            driver.now = step.until
    assert len([look for look in looks if look > 110]) <= 100


# -- finishing -----------------------------------------------------------------------------------


def test_outcomes_wait_for_each_other_and_are_ended_by_one_step() -> None:
    driver = Driver(concurrency=4)
    driver.claim(1, 2, 3, 4)
    driver.now += 0.001
    assert driver.answer(1)
    assert not driver.answer(2, Refused("gone"))
    assert not driver.answer(3, Later("busy"))
    assert not isinstance(driver.step(), FinishRows)
    driver.now += LINGER
    assert driver.finish() == FinishRows(
        (1,), (Retry(3, 1.5, "busy", counts=True),), (Burial(2, "gone"),)
    )
    counts = driver.machine.counts
    assert (counts.delivered, counts.retried, counts.buried) == (1, 1, 1)


def test_full_batch_of_outcomes_waits_for_nothing() -> None:
    driver = Driver(concurrency=10)
    driver.claim(*range(4))
    driver.claim(*range(4, 8))
    for row in range(4):
        driver.answer(row)
    assert driver.finish().delivered == (0, 1, 2, 3)


def test_last_outcome_waits_for_nothing() -> None:
    driver = Driver()
    driver.claim(1)
    assert driver.answer(1)
    assert driver.finish().delivered == (1,)


def test_row_that_was_lost_before_its_finish_is_reported_and_not_counted() -> None:
    driver = Driver()
    driver.claim(1, 2)
    driver.answer(1)
    driver.answer(2)
    driver.finish(2)
    assert driver.machine.counts.delivered == 1
    assert driver.machine.counts.lost == 1
    assert driver.told() == [LeasesLost((2,))]
    assert driver.machine.held == 0


def test_finish_that_got_no_answer_is_repeated_before_anything_else() -> None:
    driver = Driver()
    driver.claim(1)
    driver.answer(1)
    step = driver.step()
    assert isinstance(step, FinishRows)
    driver.machine.on_failed(step)
    again = driver.pass_time(1000)
    assert again == FinishRows((1,), is_repeat=True)
    # It was done the first time, so it finds nothing: that is not a lost lease.
    driver.machine.on_finished(FinishRows((1,), is_repeat=True), {1})
    assert driver.told() == []
    assert driver.machine.counts.delivered == 1


def test_claim_that_got_no_answer_is_made_again() -> None:
    driver = Driver()
    step = driver.step()
    assert isinstance(step, ClaimRows)
    driver.machine.on_failed(step)
    assert isinstance(driver.step(), ClaimRows)


def test_release_that_got_no_answer_is_made_again() -> None:
    driver = Driver()
    driver.claim(1, 2, 3, 4)
    driver.machine.stop(driver.now, 10)
    step = driver.step()
    assert step == ReleaseRows((3, 4))
    driver.machine.on_failed(step)
    assert driver.step() == ReleaseRows((3, 4))


# -- attempts ------------------------------------------------------------------------------------


def test_refused_message_is_buried_at_once() -> None:
    driver = Driver()
    driver.claim(1)
    driver.answer(1, Refused("400 Bad Request"))
    assert driver.finish().burials == (Burial(1, "400 Bad Request"),)
    assert driver.told() == [MessageBuried(1, "heroes", 1, "400 Bad Request")]


def test_message_is_buried_with_its_last_attempt() -> None:
    driver = Driver(max_attempts=3)
    driver.claim(claim_of(1, attempts=1), claim_of(2, attempts=2))
    driver.answer(1, Later("500"))
    driver.answer(2, Later("500"))
    step = driver.finish()
    assert [retry.id for retry in step.retries] == [1]
    assert step.burials == (Burial(2, "500"),)


def test_outage_burns_no_attempt_however_many_there_are() -> None:
    driver = Driver(max_attempts=3)
    driver.claim(claim_of(1, attempts=2))
    driver.answer(1, OUTAGE)
    assert driver.finish().retries == (Retry(1, 4.5, "connection refused", counts=False),)
    assert driver.machine.counts.outages == 1
    assert driver.told() == [MessageFailed(1, "heroes", 2, 4.5, "connection refused", True)]


def test_receiver_may_ask_for_a_longer_pause_within_the_limit() -> None:
    driver = Driver(retry_delay=1.0, max_retry_delay=60.0)
    driver.claim(1, 2)
    driver.answer(1, Later("503", retry_after=20.0))
    driver.answer(2, Later("503", retry_after=86_400.0))
    delays = [retry.delay for retry in driver.finish().retries]
    assert delays == [20.5, 60.0]


def test_reason_is_kept_short() -> None:
    driver = Driver()
    driver.claim(1)
    driver.answer(1, Refused("x" * 100_000))
    assert len(driver.finish().burials[0].reason) == 1000


# -- leases --------------------------------------------------------------------------------------


def test_lease_of_a_slow_send_is_renewed_before_it_ends() -> None:
    driver = Driver(lock_expiry=30.0)
    driver.claim(1, 2, 3)
    driver.answer(2)
    driver.now += LINGER
    driver.finish()
    step = driver.pass_time(15.0)
    assert isinstance(step, RenewRows)
    assert sorted(step.ids) == [1, 3]
    driver.machine.on_renewed(step, set(), driver.now)
    assert driver.machine.counts.renewed == 2
    assert not isinstance(driver.pass_time(14.0), RenewRows)
    assert isinstance(driver.pass_time(1.1), RenewRows)


def test_relay_wakes_up_in_time_to_renew() -> None:
    driver = Driver(lock_expiry=3.0, idle_interval=100.0, poll_interval=99.0)
    driver.claim(1)
    assert driver.step() == Rest(101.5)


def test_message_whose_lease_was_lost_on_its_way_is_reported_and_not_finished() -> None:
    driver = Driver()
    driver.claim(1, 2)
    step = driver.pass_time(20.0)
    assert isinstance(step, RenewRows)
    driver.machine.on_renewed(step, {1}, driver.now)
    assert driver.told() == []
    driver.answer(1)
    assert driver.told() == [LeasesLost((1,))]
    driver.answer(2)
    assert driver.finish().delivered == (2,)


def test_lost_lease_is_not_renewed_again() -> None:
    driver = Driver()
    driver.claim(1)
    step = driver.pass_time(20.0)
    assert isinstance(step, RenewRows)
    driver.machine.on_renewed(step, {1}, driver.now)
    assert not isinstance(driver.pass_time(100), RenewRows)


def test_message_that_was_lost_while_it_waited_is_not_sent() -> None:
    driver = Driver()
    driver.claim(1, 2, 3)
    step = driver.pass_time(20.0)
    assert isinstance(step, RenewRows)
    driver.machine.on_renewed(step, {3}, driver.now)
    driver.answer(1)
    assert driver.send() == []
    assert driver.told() == [LeasesLost((3,))]


def test_message_whose_lease_ended_unrenewed_while_it_waited_is_not_sent() -> None:
    """The relay was stopped for a while: somebody else has it by now."""
    driver = Driver()
    driver.claim(1, 2, 3)
    driver.now += 30.0
    driver.answer(1)
    assert driver.send() == []
    assert driver.told() == [LeasesLost((3,))]
    assert driver.machine.held == 2


def test_lease_counts_from_before_the_claim_was_asked_for() -> None:
    driver = Driver()
    step = driver.step()
    assert isinstance(step, ClaimRows)
    driver.machine.on_claimed(step, [claim_of(1)], driver.now, driver.now + 29)
    driver.now += 30
    assert driver.send() == []


def test_row_that_comes_back_while_it_is_on_its_way_is_not_sent_beside_itself() -> None:
    driver = Driver()
    assert driver.claim(1) == [1]
    driver.now += 40.0
    step = driver.step()
    assert isinstance(step, RenewRows)
    driver.machine.on_renewed(step, {1}, driver.now)
    assert driver.claim(claim_of(1, attempts=1)) == []
    driver.answer(1)
    assert driver.finish().delivered == (1,)
    assert driver.told() == []


def test_attempts_are_those_of_the_latest_claim() -> None:
    driver = Driver(max_attempts=3)
    driver.claim(1)
    driver.now += 40.0
    step = driver.step()
    assert isinstance(step, RenewRows)
    driver.machine.on_renewed(step, {1}, driver.now)
    driver.claim(claim_of(1, attempts=2))
    driver.answer(1, Later("500"))
    assert driver.finish().burials == (Burial(1, "500"),)


# -- circuits ------------------------------------------------------------------------------------


def with_open_circuit(**settings: Any) -> Driver:
    """Row 1 found nobody at "a"; row 2 was on its way to "b", and rows 3 and 4 waited for "a"."""
    driver = Driver(circuit={"failures": 1, "open_for": 5.0}, retry_delay=1.0, **settings)
    driver.claim(claim_of(1, "a/x"), claim_of(2, "b"), claim_of(3, "a/x"), claim_of(4, "a/y"))
    driver.answer(1, OUTAGE)
    return driver


def test_rows_that_wait_for_a_silent_destination_go_back_untried() -> None:
    driver = with_open_circuit()
    assert driver.send() == []
    driver.now += LINGER
    assert driver.finish().retries[0].counts is False
    assert driver.step() == ReleaseRows((3, 4))
    assert driver.told()[0] == CircuitOpened("a", "connection refused", 5.0)
    assert driver.machine.open_circuits == 1


def released(driver: Driver) -> Driver:
    driver.send()
    driver.now += LINGER
    driver.finish()
    step = driver.step()
    assert isinstance(step, ReleaseRows)
    driver.machine.on_released(step)
    driver.told()
    return driver


def test_topics_of_a_silent_destination_are_not_claimed() -> None:
    driver = released(with_open_circuit())
    assert driver.step() == ClaimRows(4, Topics(("a/x", "a/y"), are_wanted=False), ONE)
    assert driver.machine.counts.released == 2


def test_single_row_is_claimed_to_try_whether_anybody_is_back() -> None:
    driver = released(with_open_circuit())
    driver.now += 5.0
    assert driver.step() == ClaimRows(
        1, Topics(("a/x", "a/y"), are_wanted=True), ONE, is_probe=True
    )
    assert driver.claim(claim_of(3, "a/x")) == [3]
    # While that is on its way, there is no other, and the others are not claimed.
    assert driver.step() == ClaimRows(4, Topics(("a/x", "a/y"), are_wanted=False), ONE)


def test_destination_that_answers_is_claimed_again() -> None:
    driver = released(with_open_circuit())
    driver.now += 5.0
    driver.claim(claim_of(3, "a/x"))
    driver.answer(3, Later("500"))  # somebody is there, if only to say this
    assert CircuitClosed("a") in driver.told()
    driver.now += LINGER
    driver.finish()
    assert driver.step() == ClaimRows(4, Topics(), ONE)


def test_destination_that_stays_silent_is_left_alone_for_as_long_again() -> None:
    driver = released(with_open_circuit())
    driver.now += 5.0
    driver.claim(claim_of(3, "a/x"))
    driver.answer(3, OUTAGE)
    driver.now += LINGER
    driver.finish()
    step = driver.step()
    assert isinstance(step, ClaimRows)
    assert not step.is_probe
    driver.machine.on_claimed(step, [], driver.now, driver.now)
    driver.now += 4.0
    assert not getattr(driver.step(), "is_probe", False)
    driver.now += 1.0
    assert getattr(driver.step(), "is_probe", False)


def test_rows_of_an_unknown_topic_of_a_silent_destination_go_back_untried() -> None:
    driver = released(with_open_circuit())
    assert driver.claim(claim_of(9, "a/new")) == []
    assert driver.step() == ReleaseRows((9,))
    driver.machine.on_released(ReleaseRows((9,)))
    driver.now += 1.0
    step = driver.step()
    assert isinstance(step, ClaimRows)
    assert step.topics == Topics(("a/new", "a/x", "a/y"), are_wanted=False)


def test_silent_destination_does_not_keep_others_waiting() -> None:
    driver = released(with_open_circuit())
    assert driver.claim(claim_of(10, "b")) == [10]


# -- the end -------------------------------------------------------------------------------------


def test_idle_relay_stops_at_once() -> None:
    driver = Driver()
    driver.machine.stop(driver.now, 10.0)
    assert driver.step() == End()


def test_stop_gives_back_what_was_not_sent_and_waits_for_what_was() -> None:
    driver = Driver()
    driver.claim(1, 2, 3, 4)
    driver.machine.stop(driver.now, 10.0)
    assert driver.step() == ReleaseRows((3, 4))
    driver.machine.on_released(ReleaseRows((3, 4)))
    assert driver.send() == []
    assert driver.step() == Rest(110.0)
    driver.answer(1)
    driver.answer(2)
    assert driver.finish().delivered == (1, 2)
    assert driver.step() == End()


def test_what_is_not_answered_in_time_goes_back() -> None:
    driver = Driver()
    driver.claim(1, 2)
    driver.machine.stop(driver.now, 10.0)
    driver.answer(1)
    driver.now += LINGER
    driver.finish()
    step = driver.pass_time(10.0)
    assert step == Abandon((2,))
    driver.machine.on_abandoned(step)
    assert driver.step() == ReleaseRows((2,))
    driver.machine.on_released(ReleaseRows((2,)))
    assert driver.step() == End()
    assert driver.answer(2) is False


def test_leases_are_renewed_during_a_long_stop() -> None:
    driver = Driver(lock_expiry=4.0)
    driver.claim(1)
    driver.machine.stop(driver.now, 10.0)
    assert driver.step() == Rest(102.0)
    assert driver.pass_time(2.0) == RenewRows((1,))


def test_rows_that_a_claim_brings_after_the_stop_go_back() -> None:
    driver = Driver()
    step = driver.step()
    assert isinstance(step, ClaimRows)
    driver.machine.stop(driver.now, 10.0)
    driver.machine.on_claimed(step, [claim_of(1)], driver.now, driver.now)
    assert driver.send() == []
    assert driver.step() == ReleaseRows((1,))


def test_second_stop_may_shorten_the_wait() -> None:
    driver = Driver()
    driver.claim(1)
    driver.machine.stop(driver.now, 10.0)
    driver.machine.stop(driver.now, 0.0)
    assert driver.step() == Abandon((1,))


def test_stop_without_a_database_ends_when_its_time_is_over() -> None:
    driver = Driver()
    driver.claim(1, 2)
    driver.answer(1)
    driver.machine.stop(driver.now, 10.0)
    driver.now += LINGER
    step = driver.step()
    assert isinstance(step, FinishRows)
    driver.machine.on_failed(step)
    assert not driver.machine.is_overdue(driver.now)
    driver.now += 10.0
    assert driver.machine.is_overdue(driver.now)
    driver.machine.give_up()
    assert driver.step() == End()
    assert driver.told() == [LeasesLost((1,))]


# -- orphans ---------------------------------------------------------------------------------------


def orphan(row: int, attempts: int) -> Claim:
    return claim_of(row, attempts=attempts, is_orphan=True)


def test_suspect_is_sent_and_no_other_is_claimed_before_it_has_ended() -> None:
    driver = Driver()
    assert driver.claim(orphan(1, attempts=1), 2) == [1, 2]
    assert driver.pass_time(1.0) == ClaimRows(4, Topics(), Suspects(attempts=1, limit=0))
    driver.answer(2)
    driver.answer(1)
    driver.finish()
    assert driver.step() == ClaimRows(4, Topics(), ONE)


def test_next_suspect_is_looked_for_as_soon_as_one_has_ended() -> None:
    """Those that wait are not seen by the claims in between, which find nothing and slow down."""
    driver = Driver()
    driver.claim(orphan(1, attempts=1))
    for _ in range(10):
        driver.pass_time(1.0)
        driver.claim()
    driver.answer(1)
    driver.finish()
    assert driver.step() == ClaimRows(4, Topics(), ONE)


def test_orphan_that_has_had_all_its_tries_is_buried_unsent() -> None:
    driver = Driver()
    assert driver.claim(orphan(1, attempts=3), 2) == [2]
    (told,) = driver.told()
    assert (told.record, told.attempts) == (1, 3)
    driver.now += LINGER
    (burial,) = driver.finish().burials
    assert (burial.id, burial.counts) == (1, False)
    assert "ended with the relay" in burial.reason
    assert driver.machine.counts.buried == 1


def test_message_that_failed_often_is_no_orphan() -> None:
    driver = Driver()
    assert driver.claim(claim_of(1, attempts=3)) == [1]


def test_one_attempt_at_most_does_not_bury_what_a_dying_relay_had_not_sent() -> None:
    driver = Driver(max_attempts=1)
    assert driver.claim(orphan(1, attempts=1)) == [1]


def test_orphan_of_few_tries_is_claimed_with_others() -> None:
    driver = Driver(max_attempts=10)
    driver.claim(orphan(1, attempts=4))
    assert driver.pass_time(1.0) == ClaimRows(4, Topics(), Suspects(attempts=5, limit=1))
