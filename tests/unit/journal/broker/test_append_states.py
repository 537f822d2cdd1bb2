"""The states of an append by what is said of each, where the other tests only pass through it.

Most sentences have their test in ``test_append_machine.py``; here are the common cases, which lead
from each state to the next, and the ends.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.journal.broker.appends import (
    ROUTE,
    A,
    B,
    C,
    Driver,
    fragment,
    member_of,
    mismatch,
    ok,
    pipeline,
    resolved,
    spool,
)
from windrow.journal.broker import append_events as on
from windrow.journal.broker.append_events import AppendState as State
from windrow.journal.broker.append_machine import ImpossibleEvent
from windrow.journal.broker.sync import Answer
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.spec import Route
from windrow.journal.status import Status

REGISTERS = LabelSet.of({"owner": "one"})


def test_resolve_may_be_re_entered_multiple_times() -> None:
    """Here for five reasons in one append, and it still ends well."""
    driver = Driver()
    driver.tell(resolved(), on.Invalidated())  # waiting for the pipeline
    driver.tell(resolved(), on.PipelineAcquired(None), on.Invalidated())  # waiting for the spool
    driver.tell(resolved(is_assigned=False), on.PipelineBuilt(pipeline()), on.SyncSent(spool()))
    later = Answer(str(B), Status.WRONG_ROUTE, route=Route((A, C), 0), revision=30)
    driver.tell(on.SyncReceived((later,)))  # a peer knows better
    driver.tell(resolved(is_assigned=False), on.PipelineBuilt(pipeline()), on.SyncSent(spool()))
    driver.tell(on.SyncReceived((ok(spool()),)), on.Transacted(True, 33))  # assignments written
    driver.tell(resolved(), on.Invalidated())  # waiting for the first listing
    assert driver.machine.trail.count(State.RESOLVE) == 6
    driver.tell(resolved(), on.IndexReady(-1, 0))
    driver.tell(on.ChunkReceived(b"x"), on.Sent(), on.ChunkReceived(b""), on.ClientEnded())
    driver.tell(on.Sent(), on.Acknowledged())
    assert driver.state is State.FINISHED


def test_acquire_pipeline_commonly_owns_it_and_goes_to_start_pipeline() -> None:
    driver = Driver()
    driver.tell(resolved(), on.PipelineAcquired(None))
    assert driver.machine.trail[-2:] == [State.ACQUIRE_PIPELINE, State.START_PIPELINE]
    assert driver.command == on.BuildPipeline()


def test_start_pipeline_goes_to_update_assignments_if_the_pipeline_is_already_in_a_good_state() -> (
    None
):
    driver = Driver()
    driver.to_pipeline(pipeline(), is_assigned=False)
    assert driver.machine.trail[-2:] == [State.START_PIPELINE, State.UPDATE_ASSIGNMENTS]


def test_a_pipeline_that_was_built_goes_to_send_pipeline_sync_and_then_to_recv() -> None:
    driver = Driver()
    driver.to_pipeline(None)
    sync = driver.tell(on.PipelineBuilt(pipeline(spool(0, 10, REGISTERS))))
    assert driver.state is State.SEND_PIPELINE_SYNC
    assert isinstance(sync, on.SendSync)
    assert (sync.proposal, sync.registers, sync.with_header) == (fragment(0, 10), REGISTERS, True)
    assert driver.tell(on.SyncSent(spool(0, 10, REGISTERS))) == on.RecvSync()
    assert driver.machine.trail[-2:] == [State.SEND_PIPELINE_SYNC, State.RECV_PIPELINE_SYNC]


def test_recv_sync_goes_to_send_again_until_all_agree() -> None:
    driver = Driver()
    driver.to_sync(spool(0, 10))
    for end in (20, 30):
        driver.tell(on.SyncReceived((mismatch(spool(0, end)),)), on.SyncSent(spool(end, end)))
        assert driver.machine.trail[-2:] == [State.SEND_PIPELINE_SYNC, State.RECV_PIPELINE_SYNC]
    driver.tell(on.SyncReceived((ok(spool(30, 30)),)))
    assert driver.machine.trail.count(State.SEND_PIPELINE_SYNC) == 3
    assert driver.state is State.VALIDATE_PRECONDITIONS


def test_one_peer_that_agrees_does_not_make_up_for_one_that_does_not() -> None:
    driver = Driver()
    three = Route((A, B, C), 0)
    driver.to_sync(spool(0, 10), route=three, desired_replicas=3)
    driver.tell(on.SyncReceived((ok(spool(0, 10)), mismatch(spool(0, 20), C))))
    assert driver.state is State.SEND_PIPELINE_SYNC


def test_await_desired_replicas_commonly_goes_to_validate_preconditions() -> None:
    driver = Driver()
    assert driver.to_index() == on.AwaitIndex()
    assert driver.machine.trail[-2:] == [State.AWAIT_DESIRED_REPLICAS, State.VALIDATE_PRECONDITIONS]


@pytest.mark.parametrize(
    ("conditions", "index_end", "expected"),
    [
        ({"offset": 9}, 10, Status.WRONG_APPEND_OFFSET),
        ({"offset": 11}, 10, Status.WRONG_APPEND_OFFSET),
        ({}, 80, Status.INDEX_HAS_GREATER_OFFSET),
    ],
)
def test_validate_goes_to_error_if_the_offset_does_not_match_the_expectation(
    conditions: dict[str, Any], index_end: int, expected: Status
) -> None:
    """And gives the pipeline back as it is: nothing was wrong with it."""
    driver = Driver(**conditions)
    driver.to_index(spool(0, 10))
    command = driver.tell(on.IndexReady(0, index_end))
    assert driver.state is State.ERROR
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].status is expected
    assert not command.shuts_down


def test_validate_commonly_goes_to_stream_content() -> None:
    driver = Driver(offset=10)
    assert driver.to_stream(spool(0, 10)) == on.TakeContent()
    assert driver.state is State.STREAM_CONTENT


def test_stream_content_goes_to_itself_with_every_chunk() -> None:
    driver = Driver()
    driver.to_stream()
    for at in range(5):
        assert driver.tell(on.ChunkReceived(b"xy")) == on.SendContent(b"xy", 2 * at)
        driver.tell(on.Sent())
        assert driver.state is State.STREAM_CONTENT
    assert State.READ_ACKNOWLEDGEMENTS not in driver.machine.trail


@pytest.mark.parametrize(
    ("last", "expected"),
    [(on.ChunkReceived(b""), on.ProposeCommit(EMPTY)), (None, on.ProposeRollback())],
    ids=["commit", "rollback"],
)
def test_stream_content_goes_to_read_acknowledgements_behind_a_commit_or_a_rollback(
    last: on.Event | None, expected: on.Command
) -> None:
    driver = Driver()
    driver.to_stream()
    driver.tell(on.ChunkReceived(b"x"), on.Sent())
    if last is not None:
        driver.tell(last)
    assert driver.tell(on.ClientEnded()) == expected
    assert State.READ_ACKNOWLEDGEMENTS not in driver.machine.trail
    driver.tell(on.Sent())
    assert driver.state is State.READ_ACKNOWLEDGEMENTS


def to_error(driver: Driver) -> None:
    driver.tell(on.ResolveFailed("another cluster"))


def to_proxy(driver: Driver) -> None:
    driver.tell(resolved(is_local_primary=False))


def to_finished(driver: Driver) -> None:
    driver.to_stream()
    driver.tell(on.ChunkReceived(b"x"), on.Sent(), on.ChunkReceived(b""), on.ClientEnded())
    driver.tell(on.Sent(), on.Acknowledged())


ENDS = {State.ERROR: to_error, State.PROXY: to_proxy, State.FINISHED: to_finished}
EVENTS: list[on.Event] = [
    resolved(),
    on.ResolveFailed("x"),
    on.PipelineAcquired(None),
    on.Invalidated(),
    on.ClientGone(),
    on.PipelineBuilt(pipeline(route=ROUTE)),
    on.SyncSent(spool()),
    on.SyncReceived(()),
    on.PeersFailed("x"),
    on.Transacted(True, 12),
    on.TransactionUnknown("x"),
    on.IndexReady(0, 0),
    on.Rolled(spool()),
    on.GroupTaken((member_of(b"x"),)),
    on.ChunkReceived(b"x"),
    on.ClientEnded(),
    on.ClientFailed("x"),
    on.Sent(),
    on.SendFailed("x"),
    on.Acknowledged(),
]


@pytest.mark.parametrize("end", list(ENDS), ids=lambda state: state.name)
def test_error_proxy_and_finished_are_terminal(end: State) -> None:
    """Whatever happens then is a mistake of ours, and is told by both names."""
    for event in EVENTS:
        driver = Driver()
        ENDS[end](driver)
        assert driver.state is end
        with pytest.raises(ImpossibleEvent, match=f"{type(event).__name__} .*{end.name}"):
            driver.tell(event)
        assert driver.state is end
