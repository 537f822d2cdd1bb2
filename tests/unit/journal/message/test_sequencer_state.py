"""What a sequencer knows of producers, journals and offsets, and what it takes from a replay."""

from __future__ import annotations

import pytest

from tests.unit.journal.message.test_sequencer import JOURNAL, LENGTH, PRODUCERS, Reading
from windrow.journal.message.errors import ReplayIncomplete
from windrow.journal.message.sequencer import (
    Checkpoint,
    Message,
    Outcome,
    ProducerState,
    Replay,
    Sequencer,
)
from windrow.journal.message.uuids import Flags, build_uuid

OTHER = "another/journal"


def message(journal: str, clock: int, flags: Flags, at: int, producer: str = "p") -> Message:
    identity = build_uuid(PRODUCERS[producer], clock, flags)
    return Message(journal, at * LENGTH, (at + 1) * LENGTH, identity, f"{flags.name[0]}{clock}")


def given_out(sequencer: Sequencer) -> list[object]:
    out: list[object] = []
    while (step := sequencer.step()) is not None:
        out.append(step.payload if isinstance(step, Message) else step)
    return out


# -- rings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "delivered", "replays"),
    [
        ("C1 C2 qC1 C1 C2 A3 qC2 qA3", "C1 C2 A3 / qC1 qC2 qA3", [(0, 5), (2, 7)]),
        ("C1 C2 A3", "C1 C2 A3", [(0, 2)]),
        ("O1 O2 O1", "O1 / O2", []),
    ],
)
def test_without_any_ring_every_span_is_read_again(
    messages: str, delivered: str, replays: list[tuple[int, int]]
) -> None:
    reading = Reading(messages, ring=0)
    assert [out for out in reading.run().split(" | ") if out != "-"] == delivered.split(" / ")
    assert reading.replays == replays
    assert reading.sequencer.messages_pending == 0


def test_a_span_of_which_only_rejected_messages_are_left_in_the_ring_is_read_again() -> None:
    """The acknowledgement speaks for the first alone, which has left the ring."""
    reading = Reading("C9 C11 C12 C13 A10", ring=2)
    assert reading.run() == "- | - | - | - | C9 A10"
    assert reading.replays == [(0, 2)]
    assert not reading.sequencer.has_pending


def test_repetitions_of_this_span_and_of_earlier_ones_are_dropped_from_ring_and_replay() -> None:
    reading = Reading("C1 C2 A3 C4 C1 C4 C5 C6 C2 C7 A8", ring=2)
    assert reading.run().split(" | ")[-1] == "C4 C5 C6 C7 A8"
    assert reading.replays == [(3, 7)]
    assert reading.outcomes[4:6] == [Outcome.DUPLICATE, Outcome.DUPLICATE]


def test_a_rollback_frees_the_ring_of_its_producer_alone() -> None:
    reading = Reading("A6 qC1 C7 C8 A6 qC2 qC3 qA4", ring=3)
    outputs = reading.run().split(" | ")
    assert reading.outcomes[4] is Outcome.ROLLED_BACK
    assert outputs[-1] == "qC1 qC2 qC3 qA4"
    assert reading.replays == []  # there was room again for all three


# -- offsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    ["O1", "O1 O1", "C1", "C1 C1", "O3 C2", "C1 A2 A2", "O5 A2", "A1", "Z", "C1 C2 A3"],
)
def test_offsets_follow_every_message_whatever_became_of_it(words: str) -> None:
    """Dropped, pending or rolled back: it is not to be read again."""
    reading = Reading(words)
    reading.run()
    assert reading.sequencer.offsets == {JOURNAL: len(reading.messages) * LENGTH}


def test_space_between_messages_makes_no_difference() -> None:
    sequencer = Sequencer(ring=1)
    spread = [message(JOURNAL, 1, Flags.CONTINUE_TXN, 10), message(JOURNAL, 2, Flags.ACK_TXN, 30)]
    for one in (spread[0], message(JOURNAL, 1, Flags.CONTINUE_TXN, 20, "q"), spread[1]):
        sequencer.queue(one)
    assert sequencer.step() == Replay(JOURNAL, 100, 300)
    sequencer.on_replayed(spread[:1])
    assert given_out(sequencer) == ["C1", "A2"]


# -- journals --------------------------------------------------------------------------------------


def test_a_producer_of_two_journals_is_two_producers() -> None:
    """Its clock in one says nothing of what was read from the other."""
    sequencer = Sequencer()
    first, second = (message(j, 5, Flags.OUTSIDE_TXN, 0) for j in (JOURNAL, OTHER))
    assert sequencer.queue(first) is Outcome.DELIVERABLE
    assert given_out(sequencer) == ["O5"]
    assert sequencer.queue(second) is Outcome.DELIVERABLE
    assert given_out(sequencer) == ["O5"]
    assert sequencer.queue(message(JOURNAL, 6, Flags.CONTINUE_TXN, 1)) is Outcome.SPAN_BEGUN
    ack = message(OTHER, 7, Flags.ACK_TXN, 1)
    assert sequencer.queue(ack) is Outcome.ACKNOWLEDGED_NOTHING
    assert given_out(sequencer) == ["A7"]
    assert sequencer.queue(message(JOURNAL, 7, Flags.ACK_TXN, 2)) is Outcome.COMMITTED
    assert given_out(sequencer) == ["C6", "A7"]
    assert sequencer.offsets == {JOURNAL: 3 * LENGTH, OTHER: 2 * LENGTH}


def test_a_horizon_is_measured_by_the_newest_clock_of_the_same_journal() -> None:
    """A journal that nobody writes to keeps its producers however far others have come."""
    sequencer = Sequencer()
    quiet = message(JOURNAL, 10, Flags.OUTSIDE_TXN, 0)
    busy = [
        message(OTHER, 10, Flags.OUTSIDE_TXN, 0),
        message(OTHER, 900, Flags.OUTSIDE_TXN, 1, "q"),
    ]
    for one in (quiet, *busy):
        sequencer.queue(one)
        given_out(sequencer)
    kept = {(state.journal, state.producer) for state in sequencer.checkpoint(30).producers}
    assert kept == {(JOURNAL, PRODUCERS["p"]), (OTHER, PRODUCERS["q"])}


# -- checkpoints -----------------------------------------------------------------------------------


def test_a_checkpoint_of_a_checkpoint_is_the_same() -> None:
    reading = Reading("C1 C2 qC1 qA2 Z O3 C4")
    reading.run()
    kept = reading.sequencer.checkpoint()
    assert Sequencer(kept).checkpoint() == kept
    assert Sequencer(Sequencer(kept).checkpoint()).checkpoint() == kept
    assert kept.producers == (
        ProducerState(JOURNAL, PRODUCERS["p"], 3, 6 * LENGTH),
        ProducerState(JOURNAL, PRODUCERS["q"], 2),
    )


def test_whoever_goes_on_from_a_checkpoint_gives_out_the_same() -> None:
    words = "C1 C2 qC1 qC2 A3 C4 A3 qA3 C5 A6"
    whole = Reading(words)
    expected = whole.run().split(" | ")
    for cut in range(1, len(expected)):
        before = Reading(words)
        for one in before.messages[:cut]:
            before.read(one)
        after = Reading(words, checkpoint=before.sequencer.checkpoint())
        assert after.run(begin=cut).split(" | ") == expected[cut:]


def test_what_has_no_identity_leaves_no_producer_behind() -> None:
    reading = Reading("Z Z")
    reading.run()
    assert reading.sequencer.checkpoint() == Checkpoint({JOURNAL: 2 * LENGTH}, ())


# -- replays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["another journal", "before", "beyond", "another producer"])
def test_a_replay_that_holds_something_else_is_refused(fault: str) -> None:
    """It would commit what was never part of the span."""
    sequencer = Sequencer(ring=0)
    begun = message(JOURNAL, 1, Flags.CONTINUE_TXN, 5)
    for one in (begun, message(JOURNAL, 2, Flags.ACK_TXN, 6)):
        sequencer.queue(one)
    assert sequencer.step() == Replay(JOURNAL, 50, 60)
    wrong = {
        "another journal": begun._replace(journal=OTHER),
        "before": begun._replace(begin=49),
        "beyond": begun._replace(end=61),
        "another producer": message(JOURNAL, 1, Flags.CONTINUE_TXN, 5, "q"),
    }[fault]
    with pytest.raises(ReplayIncomplete, match=r"\[50, 60\)"):
        sequencer.on_replayed([wrong])
    sequencer.on_replayed([begun])
    assert given_out(sequencer) == ["C1", "A2"]
