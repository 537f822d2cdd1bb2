"""The machine, step by step."""

from __future__ import annotations

import pytest

from windrow.relay.election.leading import Leading
from windrow.relay.election.neli_machine import NeliMachine, NeliTiming, Standing
from windrow.relay.errors import ImpossibleEvent

TIMING = NeliTiming()
NANOS = 1_700_000_000_000_000_000


def assigned_machine() -> NeliMachine:
    machine = NeliMachine("me", TIMING)
    machine.on_assigned()
    return machine


def prove(machine: NeliMachine, now: float, offset: int = 7) -> None:
    value = machine.heartbeat_due(now, NANOS)
    assert value is not None
    machine.on_heartbeat(value, offset)
    assert machine.offset_to_commit(now) == offset + 1
    machine.on_committed(offset + 1, True)


def leading_machine(now: float = 10.0) -> NeliMachine:
    machine = assigned_machine()
    prove(machine, now)
    machine.on_epoch_raised(1, now)
    assert machine.leading() == Leading(1, now + 5.0, now + 14.25)
    return machine


def test_timing_is_that_of_goneli() -> None:
    assert NeliTiming(min_poll_interval=0.1, heartbeat_timeout=5.0) == TIMING
    assert TIMING.session_timeout == 15.0


def test_a_heartbeat_is_written_as_goneli_writes_it() -> None:
    assert assigned_machine().heartbeat_due(1.0, NANOS) == b"1700000000000000000%me"


def test_an_assignment_alone_is_no_right_to_lead() -> None:
    machine = assigned_machine()
    assert machine.standing is Standing.CANDIDATE
    assert not machine.wants_epoch(1.0)
    assert machine.leading() is None


def test_a_heartbeat_is_due_every_interval_while_the_partition_is_ours() -> None:
    machine = NeliMachine("me", TIMING)
    assert machine.heartbeat_due(0.0, NANOS) is None
    machine.on_assigned()
    sent = [machine.heartbeat_due(10 + tick / 100, NANOS + tick) for tick in range(35)]
    assert [tick for tick, value in enumerate(sent) if value] == [0, 10, 20, 30]
    machine.on_revoked()
    assert machine.heartbeat_due(99.0, NANOS) is None


def test_no_two_heartbeats_are_alike_though_the_calendar_goes_back() -> None:
    machine = assigned_machine()
    sent = {machine.heartbeat_due(10.0 + n, NANOS - n) for n in range(5)}
    assert len(sent) == 5


def test_the_right_counts_from_the_sending_however_late_the_proof() -> None:
    machine = assigned_machine()
    value = machine.heartbeat_due(10.0, NANOS)
    assert value is not None
    machine.on_heartbeat(value, 3)
    assert machine.offset_to_commit(12.0) == 4
    machine.on_committed(4, True)
    machine.on_epoch_raised(1, 14.0)
    assert machine.leading() == Leading(1, 15.0, 24.25)


def test_a_proof_that_comes_too_late_proves_nothing() -> None:
    """A process that slept reads its own old heartbeat, and the answer to its own old commit."""
    machine = assigned_machine()
    value = machine.heartbeat_due(10.0, NANOS)
    assert value is not None
    machine.on_pulse_began(40.0)
    machine.on_heartbeat(value, 3)
    assert machine.offset_to_commit(40.0) == 4
    machine.on_committed(4, True)
    assert not machine.wants_epoch(40.0)


@pytest.mark.parametrize("value", [b"", b"1700000000000000000%other", b"1%me", b"\xff%me"])
def test_what_we_did_not_send_counts_for_nothing(value: bytes) -> None:
    machine = assigned_machine()
    machine.heartbeat_due(10.0, NANOS)
    machine.on_heartbeat(value, 3)
    assert machine.offset_to_commit(10.0) is None


def test_a_heartbeat_that_the_group_does_not_commit_counts_for_nothing() -> None:
    """Kafka lets anybody read the partition: only the commit asks who is of the group."""
    machine = assigned_machine()
    value = machine.heartbeat_due(10.0, NANOS)
    assert value is not None
    machine.on_heartbeat(value, 3)
    assert machine.offset_to_commit(10.0) == 4
    assert not machine.wants_epoch(10.0)
    machine.on_committed(4, False)
    assert not machine.wants_epoch(10.0)
    assert machine.offset_to_commit(10.1) == 4  # and it is asked again


def test_one_commit_is_under_way_until_it_is_answered_or_given_up() -> None:
    machine = assigned_machine()
    for now, offset in ((10.0, 3), (10.1, 4), (15.0, 5)):
        value = machine.heartbeat_due(now, NANOS)
        assert value is not None
        machine.on_heartbeat(value, offset)
        asked = machine.offset_to_commit(now)
        assert asked == {3: 4, 4: None, 5: 6}[offset]
    machine.on_committed(4, True)  # the answer that was given up
    assert not machine.wants_epoch(15.0)
    machine.on_committed(6, True)
    assert machine.valid_until == 20.0


def test_proofs_are_asked_for_five_times_in_a_heartbeat_timeout() -> None:
    machine = leading_machine(10.0)
    commits = []
    for tick in range(1, 51):
        now = 10.0 + tick / 10
        value = machine.heartbeat_due(now, NANOS)
        if value is not None:
            machine.on_heartbeat(value, 10 + tick)
        offset = machine.offset_to_commit(now)
        if offset is not None:
            machine.on_committed(offset, True)
            commits.append(tick)
    assert len(commits) in (4, 5)
    assert machine.standing is Standing.LEADING


def test_a_missed_deadline_fences_and_a_later_proof_leads_anew_under_another_epoch() -> None:
    machine = leading_machine(10.0)
    machine.on_pulse_began(14.9)
    assert machine.leading() is not None
    machine.on_pulse_began(15.0)
    assert machine.standing is Standing.FENCED
    assert machine.leading() is None
    prove(machine, 15.0, offset=9)
    assert not machine.wants_epoch(15.0)  # the loss is reported first
    machine.on_pulse_began(15.1)
    assert machine.wants_epoch(15.1)
    machine.on_epoch_raised(2, 15.1)
    assert machine.leading() == Leading(2, 20.0, 29.25)


def hear(machine: NeliMachine, now: float, offset: int) -> None:
    value = machine.heartbeat_due(now, NANOS)
    assert value is not None
    machine.on_heartbeat(value, offset)


def test_a_leader_stays_while_the_group_gives_no_answer_for_as_long_as_a_session() -> None:
    """A member that died makes the group wait for it, and answer nobody meanwhile."""
    machine = leading_machine(10.0)
    for now in range(11, 25):
        machine.on_pulse_began(float(now))
        hear(machine, float(now), now)
        assert machine.leading() == Leading(1, min(now + 5.0, 24.25), 24.25)
    machine.on_pulse_began(24.25)
    assert machine.leading() is None


def test_a_fenced_leader_needs_a_fresh_proof_to_lead_again() -> None:
    machine = leading_machine(10.0)
    for now in (16.0, 16.1):
        machine.on_pulse_began(now)
        hear(machine, now, int(now * 10))
    assert machine.valid_until == 21.1  # it hears itself, and nobody else can lead before 25
    assert not machine.wants_epoch(16.1)
    offset = machine.offset_to_commit(16.1)
    assert offset is not None
    machine.on_committed(offset, True)
    assert machine.wants_epoch(16.1)


def test_a_revocation_ends_the_right_at_once() -> None:
    machine = leading_machine()
    machine.on_revoked()
    assert machine.standing is Standing.STANDBY
    assert machine.leading() is None
    assert machine.is_loss_untold


def test_nothing_of_an_earlier_assignment_proves_a_later_one() -> None:
    machine = assigned_machine()
    value = machine.heartbeat_due(10.0, NANOS)
    assert value is not None
    machine.on_heartbeat(value, 3)
    assert machine.offset_to_commit(10.0) == 4
    machine.on_revoked()
    machine.on_assigned()
    machine.on_heartbeat(value, 3)
    machine.on_committed(4, True)
    assert not machine.wants_epoch(10.0)
    assert machine.offset_to_commit(10.0) is None


def test_an_epoch_that_took_too_long_to_raise_is_not_led_under() -> None:
    machine = assigned_machine()
    prove(machine, 10.0)
    machine.on_epoch_raised(1, 15.0)
    assert machine.leading() is None
    prove(machine, 15.0, offset=9)
    machine.on_epoch_raised(2, 15.1)
    assert machine.leading() == Leading(2, 20.0, 29.25)


def test_two_assignments_in_a_row_are_impossible() -> None:
    with pytest.raises(ImpossibleEvent, match="assigned"):
        assigned_machine().on_assigned()
