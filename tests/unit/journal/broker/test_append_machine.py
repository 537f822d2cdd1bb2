"""Every state of an append and each of its exits, one transition at a time."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from tests.unit.journal.broker.appends import (
    HEAD,
    NEW_TERM,
    ROUTE,
    SPEC,
    TERM,
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
from windrow.journal.broker.group import REGISTERS_NEED_BYTES
from windrow.journal.broker.head import Head, Terms
from windrow.journal.broker.sync import Answer
from windrow.journal.labels import EMPTY, LabelSelector, LabelSet
from windrow.journal.spec import (
    SEQUENCED_LABEL,
    Flag,
    Route,
    Suspend,
    SuspendControl,
    SuspendLevel,
)
from windrow.journal.status import Status

REGISTERS = LabelSet.of({"owner": "one"})
THREE = Route((A, B, C), 0)


# -- Resolve ---------------------------------------------------------------------------------------


def test_a_request_at_a_future_revision_first_blocks_until_it_is_applied() -> None:
    assert Driver(min_revision=42).command == on.Resolve(42)


def test_resolve_fails_with_the_status_of_the_resolution() -> None:
    driver = Driver()
    command = driver.tell(resolved(status=Status.JOURNAL_NOT_FOUND))
    assert driver.state is State.ERROR
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].status is Status.JOURNAL_NOT_FOUND


def test_resolve_goes_to_await_desired_replicas_if_the_local_broker_is_not_the_primary() -> None:
    driver = Driver()
    assert driver.tell(resolved(is_local_primary=False)) == on.Proxy()
    assert driver.machine.trail == [State.RESOLVE, State.AWAIT_DESIRED_REPLICAS, State.PROXY]


def test_resolve_goes_to_start_pipeline_if_the_pipeline_is_already_owned() -> None:
    driver = Driver()
    driver.tell(resolved(), on.PipelineAcquired(pipeline(), is_invalidated=True))
    assert driver.state is State.RESOLVE
    driver.tell(resolved())
    assert State.START_PIPELINE in driver.machine.trail


def test_resolve_commonly_goes_on_to_acquire_the_pipeline() -> None:
    driver = Driver()
    assert driver.tell(resolved()) == on.AcquirePipeline()
    assert driver.state is State.ACQUIRE_PIPELINE


def test_a_pipeline_of_a_replica_that_was_made_anew_is_given_back() -> None:
    driver = Driver()
    driver.tell(resolved(), on.PipelineAcquired(pipeline(), is_invalidated=True))
    assert driver.tell(resolved(is_same_replica=False)) == on.AcquirePipeline(gives_back=True)


def test_a_resolution_that_is_refused_fails_with_its_reason() -> None:
    driver = Driver()
    command = driver.tell(on.ResolveFailed("another cluster"))
    assert isinstance(command, on.Finish)
    assert command.error == "another cluster"


# -- AcquirePipeline, StartPipeline ----------------------------------------------------------------


def test_acquire_pipeline_resolves_again_if_invalidated_while_waiting() -> None:
    driver = Driver()
    assert driver.tell(resolved(), on.Invalidated()) == on.Resolve()


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ((resolved(),), "waiting for pipeline"),
        ((resolved(), on.PipelineAcquired(None)), "waiting for spool"),
        ((resolved(), on.PipelineAcquired(pipeline())), "waiting for index"),
    ],
)
def test_every_blocking_state_ends_when_the_client_is_gone(
    events: tuple[on.Event, ...], reason: str
) -> None:
    driver = Driver()
    command = driver.tell(*events, on.ClientGone())
    assert driver.state is State.ERROR
    assert isinstance(command, on.Finish)
    assert command.error.startswith(reason)


def test_start_pipeline_is_a_no_op_if_the_route_is_the_same() -> None:
    driver = Driver()
    assert driver.to_pipeline(pipeline()) == on.AwaitIndex()
    assert State.SEND_PIPELINE_SYNC not in driver.machine.trail


@pytest.mark.parametrize(
    "held", [None, pipeline(route=Route((A,), 0)), pipeline(is_broken=True)], ids=str
)
def test_start_pipeline_builds_one_if_it_is_missing_outdated_or_broken(
    held: on.PipelineState | None,
) -> None:
    driver = Driver()
    assert driver.to_pipeline(held) == on.BuildPipeline()
    assert driver.state is State.START_PIPELINE


def test_start_pipeline_resolves_again_if_invalidated_while_awaiting_the_spool() -> None:
    driver = Driver()
    driver.to_pipeline(None)
    assert driver.tell(on.Invalidated()) == on.Resolve()


def test_a_pipeline_that_was_shut_down_is_not_used_though_it_would_fit_again() -> None:
    driver = Driver()
    driver.to_pipeline(pipeline(), route=Route((A,), 0))
    assert driver.command == on.BuildPipeline()
    driver.tell(on.Invalidated())
    assert driver.tell(resolved()) == on.BuildPipeline()


def test_a_route_with_other_endpoints_is_the_same_route() -> None:
    driver = Driver()
    moved = Route(ROUTE.members, ROUTE.primary, ("http://a:1", "http://b:2"))
    assert driver.to_pipeline(pipeline(route=moved)) == on.AwaitIndex()


# -- SendPipelineSync, RecvPipelineSync ------------------------------------------------------------


def test_the_header_goes_with_the_first_synchronising_proposal_only() -> None:
    driver = Driver()
    driver.to_pipeline(None)
    first = driver.tell(on.PipelineBuilt(pipeline(spool(0, 10))))
    assert isinstance(first, on.SendSync)
    assert first.with_header
    driver.tell(on.SyncSent(spool(0, 10)))
    second = driver.tell(on.SyncReceived((mismatch(spool(0, 20)),)))
    assert isinstance(second, on.SendSync)
    assert not second.with_header


def test_a_long_memory_spool_is_rolled_by_the_synchronising_proposal() -> None:
    driver = Driver()
    driver.to_pipeline(None)
    command = driver.tell(on.PipelineBuilt(pipeline(spool(0, 5000))))
    assert isinstance(command, on.SendSync)
    assert command.proposal == fragment(5000, 5000)


def test_a_peer_with_a_larger_append_offset_moves_all_to_its_end_and_registers() -> None:
    driver = Driver()
    driver.to_sync(spool(0, 10))
    command = driver.tell(on.SyncReceived((mismatch(spool(0, 20, REGISTERS)),)))
    assert isinstance(command, on.SendSync)
    assert command.proposal == fragment(20, 20)
    assert command.registers == REGISTERS
    assert driver.state is State.SEND_PIPELINE_SYNC


def test_a_peer_unable_to_continue_the_fragment_closes_it_at_its_end() -> None:
    """So the current fragment is always closed and persisted when a new broker joins."""
    driver = Driver()
    driver.to_sync(spool(0, 20, REGISTERS))
    command = driver.tell(on.SyncReceived((mismatch(spool(20, 20)),)))
    assert isinstance(command, on.SendSync)
    assert command.proposal == fragment(20, 20)
    assert command.registers == REGISTERS


def test_recv_sync_resolves_again_if_a_peer_knows_another_route_at_a_later_revision() -> None:
    driver = Driver()
    driver.to_sync()
    answer = Answer(str(B), Status.WRONG_ROUTE, route=Route((A, C), 0), revision=30)
    assert driver.tell(on.SyncReceived((answer,))) == on.Resolve(30, shuts_down=True)


def test_recv_sync_fails_if_a_peer_refuses_the_same_route() -> None:
    driver = Driver()
    driver.to_sync()
    answer = Answer(str(B), Status.WRONG_ROUTE, route=ROUTE, revision=30)
    command = driver.tell(on.SyncReceived((answer,)))
    assert isinstance(command, on.Finish)
    assert command.shuts_down


def test_recv_sync_tears_the_pipeline_down_if_a_peer_fails() -> None:
    driver = Driver()
    driver.to_sync()
    command = driver.tell(on.PeersFailed("broken stream"))
    assert isinstance(command, on.Finish)
    assert (command.error, command.shuts_down) == ("broken stream", True)


def test_recv_sync_goes_to_update_assignments_if_all_agree() -> None:
    driver = Driver()
    driver.to_sync(is_assigned=False)
    assert driver.tell(on.SyncReceived((ok(spool()),))) == on.PutAssignments(None)
    assert driver.state is State.UPDATE_ASSIGNMENTS


# -- durable spools: terms and the head ------------------------------------------------------------


def test_a_durable_spool_is_not_rolled_before_all_agree() -> None:
    """A rolled spool could not go back to the end of a member that is behind."""
    driver = Driver(is_durable=True)
    driver.to_pipeline(None)
    long = spool(0, 5000)
    command = driver.tell(on.PipelineBuilt(pipeline(long, term=NEW_TERM)))
    assert isinstance(command, on.SendSync)
    assert command.proposal == long.fragment
    assert command.term == NEW_TERM


def test_members_that_differ_go_back_to_the_lowest_end_once_the_head_says_so() -> None:
    driver = Driver(is_durable=True)
    ahead = spool(0, 20, REGISTERS, terms=Terms(TERM, NEW_TERM))
    behind = spool(0, 10)
    driver.to_sync(ahead, head=HEAD)
    command = driver.tell(on.SyncReceived((mismatch(behind, terms=Terms(TERM, NEW_TERM)),)))
    assert driver.state is State.DECIDE_HEAD
    assert isinstance(command, on.PutHead)
    assert command.head == Head(5, NEW_TERM, (str(A), str(B)), 10, EMPTY, ((TERM, 10),))
    command = driver.tell(on.Transacted(True, 31))
    assert command == on.SendSync(
        fragment(10, 10), EMPTY, False, NEW_TERM, rewind=True, acknowledged_end=10
    )


def test_nothing_changes_at_any_member_if_another_took_the_head() -> None:
    driver = Driver(is_durable=True)
    driver.to_sync(spool(0, 20, terms=Terms(TERM, NEW_TERM)), head=HEAD)
    driver.tell(on.SyncReceived((mismatch(spool(0, 10), terms=Terms(TERM)),)))
    assert driver.tell(on.Transacted(False, 31)) == on.Resolve(31, shuts_down=True)


def test_the_head_is_written_with_the_assignments_if_all_agree() -> None:
    driver = Driver(is_durable=True)
    agreed = spool(0, 20, REGISTERS, terms=Terms(TERM, NEW_TERM))
    driver.to_sync(agreed, head=HEAD)
    command = driver.tell(on.SyncReceived((ok(agreed, terms=Terms(TERM, NEW_TERM)),)))
    assert command == on.PutAssignments(
        Head(5, NEW_TERM, (str(A), str(B)), 20, REGISTERS, ((TERM, 20),))
    )


def test_a_pipeline_starts_only_with_a_member_of_the_head() -> None:
    driver = Driver(is_durable=True)
    driver.to_sync(spool(), head=HEAD)
    command = driver.tell(on.SyncReceived((ok(spool()),)))
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].status is Status.INDEX_HAS_GREATER_OFFSET
    assert command.shuts_down


def test_reset_head_goes_on_without_any_member_of_the_head_but_not_below_its_end() -> None:
    driver = Driver(is_durable=True, offset=300)
    driver.to_sync(spool(), head=replace(HEAD, end=500))
    assert driver.tell(on.SyncReceived((ok(spool()),))) == on.AwaitIndex()
    command = driver.tell(on.IndexReady(0, 300))
    assert isinstance(command, on.PutHead)
    assert (command.head.end, command.head.registers) == (500, EMPTY)
    moved = spool(500, 500, terms=Terms(NEW_TERM, NEW_TERM))
    driver.tell(on.Transacted(True, 31), on.SyncSent(moved), on.SyncReceived((ok(moved),)))
    assert driver.state is State.VALIDATE_PRECONDITIONS
    assert driver.tell(on.IndexReady(0, 300)) == on.TakeContent()


def test_reset_head_at_a_wrong_offset_is_refused_and_leaves_the_head() -> None:
    driver = Driver(is_durable=True, offset=200)
    driver.to_sync(spool(), head=HEAD)
    driver.tell(on.SyncReceived((ok(spool()),)))
    command = driver.tell(on.IndexReady(0, 300))
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].status is Status.WRONG_APPEND_OFFSET
    assert command.shuts_down


def test_a_head_of_a_deleted_journal_of_the_same_name_is_no_head() -> None:
    driver = Driver(is_durable=True)
    driver.to_sync(spool(), head=replace(HEAD, create_revision=4))
    command = driver.tell(on.SyncReceived((ok(spool()),)))
    assert isinstance(command, on.PutAssignments)
    assert command.head is not None


def test_a_pipeline_whose_head_was_taken_by_another_is_built_anew() -> None:
    driver = Driver(is_durable=True)
    held = pipeline(term=TERM, head_revision=3)
    assert driver.to_pipeline(held, head=HEAD) == on.AwaitIndex()
    driver = Driver(is_durable=True)
    taken = replace(HEAD, term=99, mod_revision=12)
    assert driver.to_pipeline(held, head=taken) == on.BuildPipeline()


def test_a_member_that_cannot_follow_the_decided_head_fails_the_append() -> None:
    driver = Driver(is_durable=True)
    driver.to_sync(spool(0, 20, terms=Terms(TERM)), head=HEAD)
    driver.tell(on.SyncReceived((mismatch(spool(0, 10), terms=Terms(TERM)),)))
    driver.tell(on.Transacted(True, 31), on.SyncSent(spool(10, 10)))
    command = driver.tell(on.SyncReceived((mismatch(spool(0, 10)),)))
    assert isinstance(command, on.Finish)
    assert command.shuts_down


def test_an_unknown_outcome_of_the_head_tears_the_pipeline_down() -> None:
    driver = Driver(is_durable=True)
    driver.to_sync(spool(terms=Terms(TERM)), head=HEAD)
    driver.tell(on.SyncReceived((ok(spool(), terms=Terms(TERM)),)))
    command = driver.tell(on.TransactionUnknown("no answer"))
    assert isinstance(command, on.Finish)
    assert (command.error, command.shuts_down) == ("no answer", True)


# -- UpdateAssignments, AwaitDesiredReplicas -------------------------------------------------------


@pytest.mark.parametrize("succeeded", [True, False])
def test_update_assignments_resolves_again_at_the_revision_of_the_operation(
    succeeded: bool,
) -> None:
    driver = Driver()
    driver.to_sync(is_assigned=False)
    driver.tell(on.SyncReceived((ok(spool()),)))
    assert driver.tell(on.Transacted(succeeded, 33)) == on.Resolve(33)


def test_update_assignments_is_a_no_op_if_values_reflect_the_route() -> None:
    driver = Driver()
    driver.to_sync(is_assigned=True)
    driver.tell(on.SyncReceived((ok(spool()),)))
    assert driver.machine.is_synced
    assert driver.machine.trail[-3:] == [
        State.UPDATE_ASSIGNMENTS,
        State.AWAIT_DESIRED_REPLICAS,
        State.VALIDATE_PRECONDITIONS,
    ]


def test_too_many_replicas_wait_for_the_next_revision() -> None:
    driver = Driver()
    command = driver.to_pipeline(pipeline(route=THREE), route=THREE)
    assert command == on.Resolve(11)


def test_too_many_replicas_of_another_primary_wait_without_its_pipeline() -> None:
    driver = Driver()
    driver.tell(resolved(), on.PipelineAcquired(pipeline(), is_invalidated=True))
    command = driver.tell(resolved(route=THREE, is_local_primary=False))
    assert command == on.Resolve(11, gives_back=True)


def test_too_few_replicas_are_insufficient_journal_brokers() -> None:
    driver = Driver()
    command = driver.to_index(desired_replicas=3)
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].status is Status.INSUFFICIENT_JOURNAL_BROKERS
    assert not command.shuts_down


# -- ValidatePreconditions, UpdateSuspend ----------------------------------------------------------


def test_validate_resolves_again_if_the_route_changes_while_awaiting_the_first_listing() -> None:
    driver = Driver()
    driver.to_index()
    assert driver.tell(on.Invalidated()) == on.Resolve()


def test_an_unhealthy_store_refuses_the_append_with_its_reason() -> None:
    driver = Driver()
    driver.to_index()
    command = driver.tell(on.IndexReady(0, 0, store_error="no such bucket"))
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].status is Status.FRAGMENT_STORE_UNHEALTHY
    assert command.store_error == "no such bucket"


def test_a_register_mismatch_is_answered_with_the_registers() -> None:
    driver = Driver(check_registers=LabelSelector.parse("owner=two"))
    driver.to_index(spool(0, 10, REGISTERS))
    command = driver.tell(on.IndexReady(0, 10))
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].status is Status.REGISTER_MISMATCH
    assert command.verdicts[0].registers == REGISTERS


def test_a_reset_of_the_head_moves_memory_spools_at_once() -> None:
    driver = Driver(offset=50)
    driver.to_index(spool(0, 10))
    command = driver.tell(on.IndexReady(0, 50))
    assert isinstance(command, on.SendSync)
    assert command.proposal == fragment(50, 50)


def test_a_move_of_the_head_of_durable_spools_begins_a_term_of_its_own() -> None:
    driver = Driver(is_durable=True, offset=50)
    held = pipeline(spool(0, 10), term=TERM)
    driver.to_pipeline(held, head=HEAD)
    assert driver.tell(on.IndexReady(0, 50)) == on.Resolve(shuts_down=True)
    driver.tell(resolved(head=HEAD))
    assert driver.command == on.BuildPipeline()
    state = spool(0, 10, terms=Terms(TERM, NEW_TERM))
    driver.tell(on.PipelineBuilt(pipeline(state, term=NEW_TERM, head_revision=9)))
    driver.tell(on.SyncSent(state))
    command = driver.tell(on.SyncReceived((ok(state, terms=Terms(TERM, NEW_TERM)),)))
    assert isinstance(command, on.PutHead)
    assert command.head.end == 50


def test_a_fully_suspended_journal_is_resumed_by_an_append() -> None:
    driver = Driver()
    spec = replace(SPEC, suspend=Suspend(SuspendLevel.FULL, 70))
    command = driver.tell(resolved(status=Status.SUSPENDED, spec=spec))
    assert command == on.PutSuspend(SuspendLevel.NONE, 70)
    assert driver.tell(on.Transacted(True, 12)) == on.Resolve(12)


def test_a_fully_suspended_journal_is_not_resumed_by_a_pulse() -> None:
    driver = Driver(suspend=SuspendControl.NO_RESUME)
    command = driver.tell(resolved(status=Status.SUSPENDED))
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].status is Status.SUSPENDED


@pytest.mark.parametrize("succeeded", [True, False])
def test_a_journal_whose_suspension_is_changed_is_resolved_again_won_or_lost(
    succeeded: bool,
) -> None:
    driver = Driver()
    partly = replace(SPEC, suspend=Suspend(SuspendLevel.PARTIAL, 10))
    driver.to_index(spool(0, 10), spec=partly)
    assert driver.tell(on.IndexReady(0, 10)) == on.PutSuspend(SuspendLevel.NONE, 10)
    assert driver.state is State.UPDATE_SUSPEND
    assert driver.tell(on.Transacted(succeeded, 12)) == on.Resolve(12)


@pytest.mark.parametrize("is_flushed", [True, False])
def test_an_append_that_suspends_if_flushed_goes_on_as_a_barrier_while_it_is_not(
    is_flushed: bool,
) -> None:
    driver = Driver(suspend=SuspendControl.IF_FLUSHED)
    driver.to_index(spool(0, 10))
    command = driver.tell(on.IndexReady(-1, 10, is_flushed=is_flushed))
    if is_flushed:
        assert command == on.PutSuspend(SuspendLevel.PARTIAL, 10)
    else:
        assert command == on.TakeContent()
        assert driver.tell(on.ChunkReceived(b"x")) == on.ProposeRollback()
        driver.tell(on.Sent(), on.Acknowledged())
        assert isinstance(driver.command, on.Finish)
        assert driver.command.verdicts[0].status is Status.NOT_ALLOWED


# -- StreamContent ---------------------------------------------------------------------------------


def test_the_first_call_may_roll_the_fragment_before_any_content() -> None:
    driver = Driver()
    command = driver.to_stream(spool(0, 2000))
    assert command == on.Roll(fragment(2000, 2000))
    assert driver.tell(on.Rolled(spool(2000, 2000))) == on.TakeContent()


def test_each_content_chunk_is_forwarded_to_all_peers() -> None:
    driver = Driver()
    driver.to_stream()
    assert driver.tell(on.ChunkReceived(b"abc")) == on.SendContent(b"abc", 0)
    assert driver.tell(on.Sent()) == on.ReceiveChunk()
    assert driver.tell(on.ChunkReceived(b"de")) == on.SendContent(b"de", 3)


def test_an_empty_chunk_followed_by_eof_sends_a_commit_proposal() -> None:
    driver = Driver(union_registers=REGISTERS)
    driver.to_stream(spool(0, 10))
    driver.tell(on.ChunkReceived(b"abc"), on.Sent())
    assert driver.tell(on.ChunkReceived(b"")) == on.ReceiveChunk()
    assert driver.tell(on.ClientEnded()) == on.ProposeCommit(REGISTERS)
    assert driver.tell(on.Sent()) == on.ReadAcks(closes=False)
    command = driver.tell(on.Acknowledged())
    assert driver.state is State.FINISHED
    assert isinstance(command, on.Finish)
    commit = command.verdicts[0].commit
    assert commit is not None
    assert (commit.begin, commit.end, commit.sum) == (10, 13, hashlib.sha1(b"abc").digest())
    assert command.verdicts[0].total_chunks == 2


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ((on.ClientEnded(),), "append stream: unexpected EOF"),
        ((on.ClientFailed("append stream: reset"),), "append stream: reset"),
        ((on.ClientGone(),), "append stream: client is gone"),
        (
            (on.ChunkReceived(b""), on.ChunkReceived(b"x")),
            "expected EOF after empty Content chunk",
        ),
        (
            (on.ChunkReceived(b"x"), on.Sent(), on.ClientEnded()),
            "append stream: unexpected EOF",
        ),
    ],
)
def test_an_error_of_the_client_sends_a_rollback_to_all_and_keeps_the_pipeline(
    events: tuple[on.Event, ...], reason: str
) -> None:
    driver = Driver()
    driver.to_stream()
    assert driver.tell(*events) == on.ProposeRollback()
    assert driver.tell(on.Sent()) == on.ReadAcks(closes=False)
    command = driver.tell(on.Acknowledged())
    assert driver.state is State.ERROR
    assert isinstance(command, on.Finish)
    assert command.verdicts[0].error == reason


def test_registers_change_only_with_content() -> None:
    driver = Driver(union_registers=REGISTERS)
    driver.to_stream()
    assert driver.tell(on.ChunkReceived(b""), on.ClientEnded()) == on.ProposeRollback()
    driver.tell(on.Sent(), on.Acknowledged())
    assert isinstance(driver.command, on.Finish)
    assert driver.command.verdicts[0].error == REGISTERS_NEED_BYTES


def test_content_for_a_journal_that_cannot_be_written_is_not_allowed() -> None:
    driver = Driver()
    driver.to_index(spec=replace(SPEC, flags=Flag.O_RDONLY))
    driver.tell(on.IndexReady(0, 50))
    assert driver.tell(on.ChunkReceived(b"x")) == on.ProposeRollback()
    driver.tell(on.Sent(), on.Acknowledged())
    assert isinstance(driver.command, on.Finish)
    assert driver.command.verdicts[0].status is Status.NOT_ALLOWED


def test_a_zero_byte_append_is_a_barrier() -> None:
    driver = Driver()
    driver.to_stream(spool(0, 10))
    assert driver.tell(on.GroupTaken((member_of(),))) == on.ProposeRollback()
    driver.tell(on.Sent())
    command = driver.tell(on.Acknowledged())
    assert driver.state is State.FINISHED
    assert isinstance(command, on.Finish)
    commit = command.verdicts[0].commit
    assert commit is not None
    assert (commit.begin, commit.end) == (10, 10)


def test_a_send_error_rolls_the_others_back_and_yields_no_pipeline() -> None:
    driver = Driver()
    driver.to_stream()
    driver.tell(on.ChunkReceived(b"abc"))
    assert driver.tell(on.SendFailed("b is gone")) == on.ProposeRollback()
    assert driver.tell(on.SendFailed("b is gone")) == on.ReadAcks(closes=True)
    command = driver.tell(on.Acknowledged())
    assert driver.state is State.ERROR
    assert isinstance(command, on.Finish)
    assert command.error == "b is gone"


def test_a_full_disk_of_our_own_rolls_back_and_keeps_the_pipeline() -> None:
    driver = Driver()
    driver.to_stream()
    driver.tell(on.ChunkReceived(b"abc"))
    assert driver.tell(on.SendFailed("no space", is_local=True)) == on.ProposeRollback()
    assert driver.tell(on.Sent()) == on.ReadAcks(closes=False)
    command = driver.tell(on.Acknowledged())
    assert isinstance(command, on.Finish)
    assert command.error == "no space"


def test_registers_that_our_own_spool_refuses_are_taken_back_before_any_peer_has_them() -> None:
    driver = Driver(union_registers=REGISTERS)
    driver.to_stream()
    driver.tell(on.GroupTaken((member_of(b"x", union_registers=REGISTERS),)), on.Sent())
    assert isinstance(driver.command, on.ProposeCommit)
    assert driver.tell(on.SendFailed("too large", is_local=True)) == on.ProposeRollback()


def test_a_commit_that_could_not_be_sent_to_all_closes_the_pipeline() -> None:
    driver = Driver()
    driver.to_stream()
    driver.tell(on.GroupTaken((member_of(b"x"),)), on.Sent())
    assert driver.tell(on.SendFailed("b hangs")) == on.ReadAcks(closes=True)


COMMIT: tuple[on.Event, ...] = (on.GroupTaken((member_of(b"x"),)), on.Sent())
CERTAIN: dict[str, tuple[on.Event, ...]] = {
    "the client gave it up": (on.ClientEnded(), on.Sent(), on.Acknowledged()),
    "content was not sent to all": (
        on.ChunkReceived(b"x"),
        on.SendFailed("b hangs"),
        on.SendFailed("b hangs"),
        on.PeersFailed("b hangs"),
    ),
    "no room for content": (
        on.ChunkReceived(b"x"),
        on.SendFailed("no space", is_local=True),
        on.Sent(),
        on.Acknowledged(),
    ),
    "no room for the commit": (
        *COMMIT,
        on.SendFailed("no space", is_local=True),
        on.Sent(),
        on.Acknowledged(),
    ),
}
UNCERTAIN: dict[str, tuple[on.Event, ...]] = {
    "the commit was not sent to all": (*COMMIT, on.SendFailed("b hangs"), on.PeersFailed("b")),
    "the commit was not acknowledged": (*COMMIT, on.Sent(), on.PeersFailed("b hangs")),
}


@pytest.mark.parametrize("case", [*CERTAIN, *UNCERTAIN])
def test_an_append_is_certainly_not_written_unless_its_commit_was_proposed(case: str) -> None:
    driver = Driver()
    driver.to_stream()
    command = driver.tell(*{**CERTAIN, **UNCERTAIN}[case])
    assert driver.state is State.ERROR
    assert isinstance(command, on.Finish)
    assert command.is_unwritten is (case in CERTAIN)


def test_an_append_whose_members_do_not_synchronise_is_certainly_not_written() -> None:
    driver = Driver()
    driver.to_sync()
    command = driver.tell(on.PeersFailed("b hangs"))
    assert isinstance(command, on.Finish)
    assert command.is_unwritten


# -- groups, ReadAcknowledgements ------------------------------------------------------------------


def test_a_group_is_one_content_and_one_proposal_and_one_answer_each() -> None:
    driver = Driver()
    driver.to_stream(spool(0, 10))
    first, second = member_of(b"abc"), member_of(b"de", union_registers=REGISTERS)
    assert driver.tell(on.GroupTaken((first, second))) == on.SendContent(b"abcde", 0)
    assert driver.tell(on.Sent()) == on.ProposeCommit(REGISTERS)
    driver.tell(on.Sent())
    command = driver.tell(on.Acknowledged())
    assert isinstance(command, on.Finish)
    spans = [(one.commit.begin, one.commit.end) for one in command.verdicts if one.commit]
    assert spans == [(10, 13), (13, 15)]
    assert [one.registers for one in command.verdicts] == [EMPTY, REGISTERS]


def test_an_acknowledgement_that_fails_fails_every_member_of_the_group() -> None:
    driver = Driver()
    driver.to_stream()
    driver.tell(on.GroupTaken((member_of(b"a"), member_of(b"b"))), on.Sent(), on.Sent())
    command = driver.tell(on.PeersFailed("b answered PROPOSAL_MISMATCH"))
    assert driver.state is State.ERROR
    assert isinstance(command, on.Finish)
    assert command.error == "b answered PROPOSAL_MISMATCH"
    assert len(command.verdicts) == 2


def test_a_member_of_a_group_on_a_journal_that_lost_its_registers_is_refused_by_itself() -> None:
    """J2: whoever leads the group checks nothing, so that only the group can tell."""
    driver = Driver()
    sequenced = replace(SPEC, labels=LabelSet.of({SEQUENCED_LABEL: "yes"}))
    driver.to_index(spool(0, 10), spec=sequenced)
    driver.tell(on.IndexReady(-1, 10))
    checked = member_of(b"de", check_registers=LabelSelector.parse("last=7"))
    assert driver.tell(on.GroupTaken((member_of(b"abc"), checked))) == on.SendContent(b"abc", 0)
    command = driver.tell(on.Sent(), on.Sent(), on.Acknowledged())
    assert isinstance(command, on.Finish)
    assert [one.status for one in command.verdicts] == [Status.OK, Status.REGISTER_MISMATCH]


def test_an_impossible_event_names_state_and_event() -> None:
    driver = Driver()
    with pytest.raises(ImpossibleEvent, match=r"Acknowledged cannot happen in RESOLVE"):
        driver.tell(on.Acknowledged())
