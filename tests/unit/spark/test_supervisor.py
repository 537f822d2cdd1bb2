"""Which leg is started when, and which again: every state with every event, in any order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.graph.delivery_errors import ImpossibleEvent
from windrow.graph.policies import Retry
from windrow.spark.runner.causes import Cause, CauseKind
from windrow.spark.runner.supervisor import (
    ENDED,
    Command,
    Event,
    Leg,
    LegEnded,
    LegFailed,
    LegProgressed,
    LegStarted,
    LegState,
    StartLeg,
    StopLeg,
    StopRequested,
    Supervisor,
    Ticked,
    limit_of,
)

RETRY = Retry(attempts=2, backoff=1.0, max_backoff=8.0)


def leg(name: str, *after: str, retry: Retry = RETRY) -> Leg:
    return Leg(name, name, retry, frozenset(after))


def cause(kind: CauseKind = CauseKind.FAILURE) -> Cause:
    return Cause(kind, "Boom", "it broke")


class Bench:
    """A supervisor with a clock that is moved by hand."""

    def __init__(self, *legs: Leg, **options: object) -> None:
        self.supervisor = Supervisor(legs or (leg("a"),), **options)  # type: ignore[arg-type]
        self.now = 0.0
        self.commands = self.supervisor.begin(self.now)

    def tell(self, *events: Event) -> list[Command]:
        told: list[Command] = []
        for event in events:
            told += self.supervisor.handle(event, self.now)
        self.commands += told
        return told

    def state(self, name: str = "a") -> LegState:
        return self.supervisor.status[name].state


def test_legs_start_one_after_the_other_in_their_order() -> None:
    bench = Bench(leg("a"), leg("b"), leg("c"))
    assert bench.commands == [StartLeg("a", 1)]
    assert bench.tell(LegStarted("a")) == [StartLeg("b", 1)]
    assert bench.tell(LegStarted("b")) == [StartLeg("c", 1)]
    assert bench.tell(LegStarted("c")) == []
    assert {status.state for status in bench.supervisor.status.values()} == {LegState.RUNNING}


def test_leg_that_cannot_start_keeps_no_other_from_starting() -> None:
    bench = Bench(leg("a"), leg("b"))
    assert bench.tell(LegFailed("a", cause())) == [StartLeg("b", 1)]
    assert bench.state("a") is LegState.PAUSING


def test_pauses_double_until_progress_is_made() -> None:
    bench = Bench(leg("a", retry=Retry(attempts=None, backoff=1.0, max_backoff=8.0)))
    pauses = []
    for _ in range(5):
        bench.tell(LegStarted("a"), LegFailed("a", cause()))
        pauses.append((bench.supervisor.due or 0) - bench.now)
        bench.now = bench.supervisor.due or 0
        bench.tell(Ticked())
    assert pauses == [1, 2, 4, 8, 8]
    bench.tell(LegStarted("a"), LegProgressed("a"), LegFailed("a", cause()))
    assert bench.supervisor.due == bench.now + 1


def test_pause_is_not_over_before_its_time() -> None:
    bench = Bench()
    bench.tell(LegFailed("a", cause()))
    bench.now = 0.9
    assert bench.tell(Ticked()) == []
    bench.now = 1.0
    assert bench.tell(Ticked()) == [StartLeg("a", 2)]


def fail_until_given_up(bench: Bench, kind: CauseKind, most: int = 50) -> int:
    for count in range(1, most):
        bench.tell(LegFailed("a", cause(kind)))
        if bench.state() is not LegState.PAUSING:
            return count
        bench.now = bench.supervisor.due or 0
        bench.tell(Ticked())
    return most


def test_leg_without_progress_is_given_up_after_the_backing_journal_would_have() -> None:
    bench = Bench()
    assert fail_until_given_up(bench, CauseKind.FAILURE) == limit_of(RETRY) == 5
    assert bench.state() is LegState.GIVEN_UP
    assert bench.supervisor.is_done
    assert [status.leg.name for status in bench.supervisor.failed] == ["a"]


def test_outage_is_waited_out_however_long_it_takes() -> None:
    bench = Bench()
    assert fail_until_given_up(bench, CauseKind.OUTAGE) == 50
    assert bench.supervisor.status["a"].counted == 0


def test_failures_from_long_ago_are_forgotten() -> None:
    bench = Bench(steady_after=30.0)
    for _ in range(20):
        bench.tell(LegStarted("a"))
        bench.now += 30
        bench.tell(LegFailed("a", cause()))
        assert bench.supervisor.status["a"].failures == 1
        bench.now += 1
        bench.tell(Ticked())


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (CauseKind.FENCED, LegState.FENCED),
        (CauseKind.REFUSED, LegState.REFUSED),
        (CauseKind.TORN, LegState.REFUSED),
        (CauseKind.EXHAUSTED, LegState.GIVEN_UP),
    ],
)
@pytest.mark.parametrize("was_running", [True, False])
def test_what_a_restart_cannot_mend_is_not_restarted(
    kind: CauseKind, state: LegState, was_running: bool
) -> None:
    bench = Bench()
    if was_running:
        bench.tell(LegStarted("a"))
    assert bench.tell(LegFailed("a", cause(kind))) == []
    assert bench.state() is state
    bench.now = 1e6
    assert bench.tell(Ticked()) == []
    assert bench.supervisor.is_done
    assert not cause(kind).may_restart


def test_leg_that_is_given_up_tells_what_it_failed_with() -> None:
    bench = Bench()
    bench.tell(LegFailed("a", Cause(CauseKind.FAILURE, "ValueError", "no price")))
    bench.now = 1.0
    bench.tell(Ticked(), LegFailed("a", Cause(CauseKind.EXHAUSTED, "AttemptsExhausted", "2 times")))
    told = str(bench.supervisor.status["a"].cause)
    assert told == "AttemptsExhausted: 2 times (it failed with ValueError: no price)"


def test_others_go_on_when_one_is_given_up() -> None:
    bench = Bench(leg("a"), leg("b"))
    bench.tell(LegStarted("a"), LegStarted("b"))
    assert bench.tell(LegFailed("a", cause(CauseKind.REFUSED))) == []
    assert bench.state("b") is LegState.RUNNING
    assert not bench.supervisor.is_done


def test_others_are_stopped_when_one_is_given_up_if_that_is_the_policy() -> None:
    bench = Bench(leg("a"), leg("b"), leg("c"), when_given_up="stop")
    bench.tell(LegStarted("a"), LegStarted("b"))
    assert bench.tell(LegFailed("a", cause(CauseKind.EXHAUSTED))) == [StopLeg("b")]
    assert bench.tell(LegEnded("b"), LegStarted("c")) == [StopLeg("c")]
    bench.tell(LegEnded("c"))
    assert bench.supervisor.is_done
    assert bench.state("a") is LegState.GIVEN_UP


def test_query_that_ends_by_itself_is_started_again() -> None:
    bench = Bench()
    bench.tell(LegStarted("a"), LegEnded("a"))
    assert bench.state() is LegState.PAUSING
    found = bench.supervisor.status["a"].cause
    assert found is not None
    assert "nobody stopped it" in str(found)


def test_stop_ends_what_runs_and_starts_nothing_more() -> None:
    bench = Bench(leg("running"), leg("pausing"), leg("starting"), leg("waiting"))
    bench.tell(LegStarted("running"), LegFailed("pausing", cause()))
    assert bench.tell(StopRequested()) == [StopLeg("running")]
    assert bench.state("pausing") is bench.state("waiting") is LegState.STOPPED
    assert bench.state("starting") is LegState.STARTING
    assert bench.tell(LegStarted("starting")) == [StopLeg("starting")]
    assert bench.tell(LegEnded("running"), LegEnded("starting")) == []
    assert bench.supervisor.is_done
    assert not bench.supervisor.failed


def test_query_that_fails_while_it_is_stopped_has_stopped() -> None:
    bench = Bench()
    bench.tell(LegStarted("a"), StopRequested(), LegFailed("a", cause(CauseKind.FENCED)))
    assert bench.state() is LegState.STOPPED
    assert bench.supervisor.status["a"].cause == cause(CauseKind.FENCED)


def test_stop_is_asked_for_twice_and_done_once() -> None:
    bench = Bench()
    bench.tell(LegStarted("a"), StopRequested())
    assert bench.tell(StopRequested()) == []


def test_run_that_takes_what_is_there_goes_down_the_graph() -> None:
    bench = Bench(leg("a"), leg("b", "a"), leg("c", "a"), leg("d", "b", "c"), is_once=True)
    assert bench.tell(LegStarted("a")) == []
    assert bench.tell(LegEnded("a")) == [StartLeg("b", 1)]
    assert bench.tell(LegStarted("b")) == [StartLeg("c", 1)]
    bench.tell(LegStarted("c"))
    assert bench.tell(LegEnded("b")) == []
    assert bench.tell(LegEnded("c")) == [StartLeg("d", 1)]
    bench.tell(LegStarted("d"), LegEnded("d"))
    assert bench.supervisor.is_done
    assert bench.supervisor.begin(bench.now) == [StartLeg("a", 1)]


def test_next_round_leaves_alone_what_was_given_up() -> None:
    bench = Bench(leg("a"), leg("b", "a"), is_once=True)
    bench.tell(LegFailed("a", cause(CauseKind.REFUSED)), LegStarted("b"), LegEnded("b"))
    assert bench.supervisor.begin(bench.now) == [StartLeg("b", 1)]


def test_failed_leg_of_such_a_run_is_tried_again_before_what_reads_from_it() -> None:
    bench = Bench(leg("a"), leg("b", "a"), is_once=True)
    bench.tell(LegStarted("a"))
    assert bench.tell(LegFailed("a", cause())) == []
    bench.now = 1.0
    assert bench.tell(Ticked()) == [StartLeg("a", 2)]
    assert bench.tell(LegStarted("a"), LegEnded("a")) == [StartLeg("b", 1)]


IN_STATE: dict[LegState, Sequence[Event]] = {
    LegState.STARTING: (),
    LegState.RUNNING: (LegStarted("a"),),
    LegState.PAUSING: (LegFailed("a", cause()),),
    LegState.STOPPING: (LegStarted("a"), StopRequested()),
    LegState.STOPPED: (LegStarted("a"), StopRequested(), LegEnded("a")),
    LegState.FENCED: (LegFailed("a", cause(CauseKind.FENCED)),),
    LegState.REFUSED: (LegFailed("a", cause(CauseKind.REFUSED)),),
    LegState.GIVEN_UP: (LegFailed("a", cause(CauseKind.EXHAUSTED)),),
}
POSSIBLE = {
    (LegState.STARTING, LegStarted),
    (LegState.STARTING, LegFailed),
    (LegState.RUNNING, LegFailed),
    (LegState.RUNNING, LegEnded),
    (LegState.STOPPING, LegFailed),
    (LegState.STOPPING, LegEnded),
}


@pytest.mark.parametrize("state", IN_STATE)
@pytest.mark.parametrize("event", [LegStarted("a"), LegFailed("a", cause()), LegEnded("a")])
def test_every_state_takes_what_can_happen_in_it_and_nothing_else(
    state: LegState, event: Event
) -> None:
    bench = Bench()
    bench.tell(*IN_STATE[state])
    assert bench.state() is state
    if (state, type(event)) in POSSIBLE:
        bench.tell(event)
    else:
        with pytest.raises(ImpossibleEvent, match=type(event).__name__):
            bench.tell(event)


@pytest.mark.parametrize("state", IN_STATE)
@pytest.mark.parametrize("event", [LegProgressed("a"), Ticked(), StopRequested()])
def test_what_may_come_late_or_at_any_time_is_taken_in_every_state(
    state: LegState, event: Event
) -> None:
    bench = Bench()
    bench.tell(*IN_STATE[state])
    bench.tell(event)
    if state in ENDED:
        assert bench.state() is state


@given(
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(["go-on", "stop"]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7), st.sampled_from(list(CauseKind)))),
)
def test_whatever_happens_one_starts_at_a_time_and_a_stop_ends_all(
    count: int,
    is_once: bool,
    when_given_up: str,
    happenings: list[tuple[int, int, CauseKind]],
) -> None:
    names = [str(number) for number in range(count)]
    legs = [leg(name, *names[:number]) for number, name in enumerate(names)]
    bench = Bench(*legs, is_once=is_once, when_given_up=when_given_up)
    for number, action, kind in happenings:
        name = names[number % count]
        ended_before = {n for n in names if bench.state(n) in ENDED}
        _happen(bench, name, action, kind)
        starting = [n for n in names if bench.state(n) is LegState.STARTING]
        assert len(starting) <= 1
        assert all(bench.state(n) in ENDED for n in ended_before)
    bench.tell(StopRequested())
    for _ in range(2 * count):
        for name in names:
            _happen(bench, name, 0, CauseKind.FAILURE)
    assert bench.supervisor.is_done
    for name in names:
        started = [c for c in bench.commands if c == StopLeg(name)]
        assert len(started) <= 1


def _happen(bench: Bench, name: str, action: int, kind: CauseKind) -> None:
    """Something that can happen now, chosen by number; 0 is what is waited for."""
    match bench.state(name), action:
        case LegState.STARTING, 0 | 1 | 2:
            bench.tell(LegStarted(name))
        case ((LegState.STARTING | LegState.RUNNING | LegState.STOPPING), 3 | 4):
            bench.tell(LegFailed(name, cause(kind)))
        case LegState.STOPPING, 0:
            bench.tell(LegEnded(name))
        case ((LegState.RUNNING | LegState.STOPPING), 5):
            bench.tell(LegEnded(name))
        case _, 6:
            bench.tell(LegProgressed(name))
        case _, 7:
            bench.now = max(bench.now, bench.supervisor.due or 0)
            bench.tell(Ticked())
