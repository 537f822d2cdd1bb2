"""What keeps a leg from starting, and what would mend it, worked out from what is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windrow.graph.backing import (
    GaveUp,
    Poisoned,
    Record,
    Retried,
    Rewound,
    SnapshotTaken,
    fold,
)
from windrow.graph.high_water import Delivered
from windrow.graph.planning import Available
from windrow.graph.positions import SourceOffsets, SourcePartition, Span
from windrow.graph.recovery import Checkpoint, Situation, recover
from windrow.graph.snapshot import ProcessorUid, Snapshot
from windrow.spark.runner.checkpoint import SparkCheckpoint, TornFile
from windrow.spark.runner.diagnosis import (
    AppendRewound,
    DropCheckpoint,
    Finding,
    Patient,
    Permissions,
    RemoveFiles,
    diagnose,
)
from windrow.spark.runner.facts import LegFacts

UID = ProcessorUid("shop", "price")
ALL = Permissions(
    frozenset({"orders"}), frozenset({("orders", 0), ("orders", 1)}), True, True, True
)


def snapshot(number: int, *ranges: tuple[int, int], incarnation: str = "one") -> Snapshot:
    spans = tuple(
        Span("orders", incarnation, partition, *range_) for partition, range_ in enumerate(ranges)
    )
    return Snapshot(UID, number, spans)


def delivered(of: Snapshot) -> Delivered:
    return Delivered(UID, of.number, of.delivery_hash, of.ends, 1)


def available(*ranges: tuple[int, int], incarnation: str = "one") -> tuple[Available, ...]:
    return tuple(
        Available("orders", incarnation, partition, *range_)
        for partition, range_ in enumerate(ranges)
    )


FIRST = snapshot(1, (0, 5), (0, 5))
SECOND = snapshot(2, (5, 9), (5, 9))
TAKEN = SnapshotTaken(FIRST)
TAKEN_NEXT = SnapshotTaken(SECOND, FIRST.delivery_hash)


def patient(facts: LegFacts, given: Permissions | None = None, **situation: object) -> Patient:
    whole = Situation(UID, frozenset({"orders"}), available=facts.available, **situation)  # type: ignore[arg-type]
    return Patient(whole, facts, None, given or Permissions())


WELL = LegFacts(fold([TAKEN]), delivered(FIRST), (), available((0, 9), (0, 9)))
SINK_LOST = replace(WELL, delivered=None, backing=fold([TAKEN, TAKEN_NEXT]))
MADE_AGAIN = replace(WELL, available=available((0, 3), (0, 3), incarnation="two"))
TRIMMED = replace(WELL, available=available((7, 9), (8, 9)))


def mended(sick: Patient, findings: list[Finding]) -> SourceOffsets:
    """Where recovery goes on once every remedy was applied."""
    records = [f.remedy.record for f in findings if isinstance(f.remedy, AppendRewound)]
    backing = fold(records, sick.facts.backing)
    return recover(backing, sick.facts.delivered, sick.situation).start


def test_nothing_is_wrong_with_a_leg_that_is_well() -> None:
    assert diagnose(patient(WELL, ALL)) == []


@pytest.mark.parametrize(
    ("facts", "needs"),
    [
        (SINK_LOST, "--sink-lost"),
        (MADE_AGAIN, "--accept-incarnation orders"),
        (TRIMMED, "--skip orders:0"),
    ],
)
def test_refusal_names_its_flag_and_nothing_is_done_without_it(facts: LegFacts, needs: str) -> None:
    [finding] = diagnose(patient(facts))
    assert finding.needs == needs
    assert finding.remedy is None
    assert finding.is_blocking
    assert needs in finding.text


def test_lost_sink_is_filled_anew_from_the_beginning() -> None:
    sick = patient(SINK_LOST, ALL)
    findings = diagnose(sick)
    assert len(findings) == 1
    assert mended(sick, findings) == SourceOffsets()


def test_sink_that_was_set_back_gets_the_difference_again() -> None:
    third = snapshot(3, (9, 9), (9, 12))
    facts = replace(
        WELL,
        backing=fold([TAKEN_NEXT, SnapshotTaken(third, SECOND.delivery_hash)]),
        available=available((0, 20), (0, 20)),
    )
    sick = patient(facts, ALL, when_sink_behind="refuse")
    [finding] = findings = diagnose(sick)
    assert "after snapshot 1" in finding.action
    assert mended(sick, findings) == FIRST.ends
    [unasked] = diagnose(patient(facts, when_sink_behind="refuse"))
    assert unasked.needs == "--rewind"


def test_source_that_was_made_again_is_read_from_its_beginning() -> None:
    sick = patient(MADE_AGAIN, ALL)
    start = mended(sick, diagnose(sick))
    assert "orders" not in start.sources


def test_source_made_again_under_an_attempt_in_doubt_is_mended_too() -> None:
    sick = patient(replace(MADE_AGAIN, backing=fold([TAKEN, TAKEN_NEXT])), ALL)
    assert "orders" not in mended(sick, diagnose(sick)).sources


def test_every_partition_that_lost_messages_is_skipped_by_itself() -> None:
    sick = patient(TRIMMED, ALL)
    findings = diagnose(sick)
    assert [finding.action for finding in findings] == [
        'give up 2 messages of source "orders"',
        'give up 3 messages of source "orders"',
    ]
    origins = [SourcePartition("orders", "one", number) for number in (0, 1)]
    assert mended(sick, findings) == SourceOffsets.of({origins[0]: 7, origins[1]: 8})


def test_skip_of_one_partition_leaves_the_other_refused() -> None:
    one = Permissions(skips=frozenset({("orders", 0)}))
    findings = diagnose(patient(TRIMMED, one))
    assert [finding.needs for finding in findings] == ["", "--skip orders:1"]


def test_what_no_flag_can_mend_is_told_with_its_way_on() -> None:
    facts = replace(WELL, available=available((0, 3), (0, 9)))
    [finding] = diagnose(patient(facts, ALL))
    assert finding.remedy is None
    assert not finding.needs
    assert "lost its tail" in finding.text


# --- checkpoints ----------------------------------------------------------------------------------


def torn(*names: str) -> SparkCheckpoint:
    errors = tuple(TornFile(f"c/shop/price/{name}", "it is empty") for name in names)
    return SparkCheckpoint("c/shop/price", "id", 3, 2, torn=errors)


def test_torn_logs_are_removed_with_their_checksums() -> None:
    [finding] = diagnose(replace(patient(WELL), checkpoint=torn("offsets/3", "commits/2")))
    assert finding.remedy == RemoveFiles(
        (
            "c/shop/price/offsets/3",
            "c/shop/price/offsets/.3.crc",
            "c/shop/price/commits/2",
            "c/shop/price/commits/.2.crc",
        )
    )


def test_torn_metadata_takes_the_checkpoint_with_it_unless_that_holds_state() -> None:
    [finding] = diagnose(replace(patient(WELL), checkpoint=torn("metadata")))
    assert finding.remedy == DropCheckpoint("c/shop/price")
    [kept] = diagnose(replace(patient(WELL, is_stateful=True), checkpoint=torn("metadata")))
    assert kept.remedy is None
    assert kept.needs == "--accept-state-loss"
    given = Permissions(state_loss=True)
    [dropped] = diagnose(
        replace(patient(WELL, given, is_stateful=True), checkpoint=torn("metadata"))
    )
    assert dropped.remedy == DropCheckpoint("c/shop/price")


def test_lost_state_needs_a_run_that_accepts_it() -> None:
    [finding] = diagnose(patient(WELL, is_stateful=True))
    assert finding.needs == "--accept-state-loss"
    assert finding.remedy is None
    [told] = diagnose(patient(WELL, ALL, is_stateful=True))
    assert "windrow graph run --accept-state-loss" in told.needs


def test_state_that_goes_on_where_the_sink_does_is_well() -> None:
    assert diagnose(patient(WELL, is_stateful=True, checkpoint=Checkpoint(FIRST.ends))) == []


def test_lost_checkpoint_is_told_and_blocks_nothing() -> None:
    [finding] = diagnose(replace(patient(WELL), checkpoint=SparkCheckpoint("c")))
    assert not finding.is_blocking
    assert "goes on after snapshot 1" in finding.text


# --- attempts -------------------------------------------------------------------------------------


def test_attempts_that_were_used_up_are_told() -> None:
    records: list[Record] = [TAKEN, TAKEN_NEXT, Retried(2, 2, "boom"), GaveUp(2, "boom")]
    [finding] = diagnose(patient(replace(WELL, backing=fold(records))))
    assert not finding.is_blocking
    assert "snapshot 2 was given up, last with: boom" in finding.text


def test_poisoned_messages_are_told_by_their_place() -> None:
    poison = Poisoned(2, Span("orders", "one", 0, 5, 9).position(6), "boom")
    [finding] = diagnose(patient(replace(WELL, backing=fold([TAKEN, TAKEN_NEXT, poison]))))
    assert not finding.is_blocking
    assert "orders:0:6" in finding.text


def test_operators_rewind_is_what_the_next_start_follows() -> None:
    """What a repair appends is read by recovery as an order, not as a disagreement."""
    sick = patient(SINK_LOST, ALL)
    [finding] = diagnose(sick)
    assert isinstance(finding.remedy, AppendRewound)
    assert isinstance(finding.remedy.record, Rewound)
    healed = replace(SINK_LOST, backing=SINK_LOST.backing.after(finding.remedy.record))
    assert diagnose(patient(healed)) == []
