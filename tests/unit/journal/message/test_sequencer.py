"""What a sequencer makes of each message, as tables.

A message is written ``[producer][flag][clock]``: ``C5`` is one of producer p that continues a
transaction at clock 5, ``qA7`` an acknowledgement of producer q at 7, ``O3`` one outside of a
transaction, ``Z`` one without an identity.
"""

from __future__ import annotations

import re

import pytest

from windrow.journal.message.errors import ReplayIncomplete, SpanUnfinished
from windrow.journal.message.sequencer import (
    NO_SPAN,
    Checkpoint,
    Message,
    Outcome,
    ProducerState,
    Replay,
    Sequencer,
)
from windrow.journal.message.uuids import ZERO, build_uuid

JOURNAL = "a/journal"
PRODUCERS = {"p": b"\x01ppppp", "q": b"\x01qqqqq"}
FLAGS = {"O": 0, "C": 1, "A": 2, "X": 7}
LENGTH = 10


def message_of(word: str, index: int) -> Message:
    found = re.fullmatch(r"(?:([pq])?([OCAX])(\d+)|Z)", word)
    assert found, word
    begin = index * LENGTH
    if word == "Z":
        return Message(JOURNAL, begin, begin + LENGTH, ZERO, word)
    producer, flag, clock = found.groups()
    identity = build_uuid(PRODUCERS[producer or "p"], int(clock), FLAGS[flag])
    return Message(JOURNAL, begin, begin + LENGTH, identity, word)


class Reading:
    """Messages of one journal read one after the other, replays included."""

    def __init__(self, text: str, ring: int = 100, checkpoint: Checkpoint | None = None) -> None:
        self.messages = [message_of(word, index) for index, word in enumerate(text.split())]
        self.sequencer = Sequencer(checkpoint or Checkpoint(), ring)
        self.replays: list[tuple[int, int]] = []
        self.outcomes: list[Outcome] = []

    def run(self, begin: int = 0) -> str:
        return " | ".join(self.read(message) for message in self.messages[begin:])

    def read(self, message: Message) -> str:
        self.outcomes.append(self.sequencer.queue(message))
        out = []
        while (step := self.sequencer.step()) is not None:
            if isinstance(step, Replay):
                self.replays.append((step.begin // LENGTH, step.end // LENGTH))
                self.sequencer.on_replayed(self.messages[step.begin // LENGTH : step.end // LENGTH])
            else:
                out.append(str(step.payload))
        return " ".join(out) or "-"


@pytest.mark.parametrize(
    ("messages", "delivered"),
    [
        # Outside of transactions.
        ("O1 O2 O3", "O1 | O2 | O3"),
        ("O1 O1", "O1 | -"),
        ("O1 O3 O2", "O1 | O3 | -"),
        ("O1 O2 O1 O2 O3", "O1 | O2 | - | - | O3"),
        ("X1 X1 X2", "X1 | - | X2"),
        ("Z Z Z", "Z | Z | Z"),
        ("O5 Z O5", "O5 | Z | -"),
        # Transactions.
        ("C1 C2 A3", "- | - | C1 C2 A3"),
        ("C1 A2 C3 A4", "- | C1 A2 | - | C3 A4"),
        ("C1 C2 A2", "- | - | C1 C2 A2"),
        ("A1", "A1"),
        ("C1 A2 A3", "- | C1 A2 | A3"),
        ("C1 C2", "- | -"),
        # Repetitions.
        ("C1 C1 A2", "- | - | C1 A2"),
        ("C1 C2 C1 C2 A3", "- | - | - | - | C1 C2 A3"),
        ("C1 C2 C1 C2 C3 A4", "- | - | - | - | - | C1 C2 C3 A4"),
        ("C1 A2 C1 A2", "- | C1 A2 | - | -"),
        ("C1 A2 C1 A2 C3 A4", "- | C1 A2 | - | - | - | C3 A4"),
        ("C1 A2 C3 C1 A2 C3 A4", "- | C1 A2 | - | - | - | - | C3 A4"),
        ("C1 A2 O2 O3", "- | C1 A2 | - | O3"),
        ("C3 C2 A4", "- | - | C3 A4"),
        # Roll-backs: the producer starts over from its last acknowledgement.
        ("C1 A2 C3 A2 C5 A6", "- | C1 A2 | - | - | - | C5 A6"),
        ("C1 A2 C3 C4 A2 A5", "- | C1 A2 | - | - | - | A5"),
        ("O1 C2 C3 O4 C5 A6", "O1 | - | - | O4 | - | C5 A6"),
        ("C1 O2 A3", "- | O2 | A3"),
        # An acknowledgement commits up to its own clock.
        ("C1 C2 C5 A3", "- | - | - | C1 C2 A3"),
        ("C1 C5 A3 C5 A6", "- | - | C1 A3 | - | C5 A6"),
        ("C5 C6 A5", "- | - | C5 A5"),
        # Acknowledgements from the past weaken the promise, and lose nothing new.
        ("C5 A6 C7 A3 C4 A5", "- | C5 A6 | - | - | - | C4 A5"),
        ("O9 A4 O5", "O9 | - | O5"),
        # Producers do not know of each other.
        ("C1 qC1 A2 qA2", "- | - | C1 A2 | qC1 qA2"),
        ("C1 qO1 C2 A3", "- | qO1 | - | C1 C2 A3"),
        ("C1 qC1 qA1 C2 qC1 A3", "- | - | qC1 qA1 | - | - | C1 C2 A3"),
        ("qC1 C2 qC3 A4 qA4", "- | - | - | C2 A4 | qC1 qC3 qA4"),
        ("C9 qO1 qO2 A9", "- | qO1 | qO2 | C9 A9"),
    ],
)
@pytest.mark.parametrize("ring", [100, 1])
def test_committed_messages_are_delivered_once_and_in_order(
    messages: str, delivered: str, ring: int
) -> None:
    """With a ring of one almost every span has to be read again; it makes no difference."""
    assert Reading(messages, ring).run() == delivered


@pytest.mark.parametrize(
    ("messages", "outcome"),
    [
        ("O1", Outcome.DELIVERABLE),
        ("Z", Outcome.DELIVERABLE),
        ("O1 O1", Outcome.DUPLICATE),
        ("C1", Outcome.SPAN_BEGUN),
        ("C1 C2", Outcome.SPAN_EXTENDED),
        ("C1 C1", Outcome.DUPLICATE),
        ("O3 C2", Outcome.DUPLICATE),
        ("C1 A2", Outcome.COMMITTED),
        ("A2", Outcome.ACKNOWLEDGED_NOTHING),
        ("C1 A2 C3 A2", Outcome.ROLLED_BACK),
        ("O5 A2", Outcome.RESET),
    ],
)
def test_every_message_has_its_outcome(messages: str, outcome: Outcome) -> None:
    reading = Reading(messages)
    reading.run()
    assert reading.outcomes[-1] is outcome


@pytest.mark.parametrize(
    ("messages", "ring", "replays"),
    [
        ("C1 C2 C3 A4", 3, []),
        ("C1 C2 C3 A4", 2, [(0, 1)]),
        ("C1 C2 C3 A4", 1, [(0, 2)]),
        ("C1 qC1 qC2 A4 qA5", 2, [(0, 3)]),
        ("C1 qC1 C2 qC2 A4 qA5", 2, [(0, 2), (1, 3)]),
        ("C1 A2 C3 C4 A5", 1, [(2, 3)]),
    ],
)
def test_only_what_left_the_ring_is_read_again(
    messages: str, ring: int, replays: list[tuple[int, int]]
) -> None:
    reading = Reading(messages, ring)
    reading.run()
    assert reading.replays == replays


def test_a_replay_that_lacks_the_begin_of_the_span_is_refused() -> None:
    reading = Reading("C1 C2 C3 A4", ring=1)
    for message in reading.messages:
        reading.sequencer.queue(message)
    assert reading.sequencer.step() == Replay(JOURNAL, 0, 20)
    with pytest.raises(ReplayIncomplete, match=r"\[0, 20\)"):
        reading.sequencer.on_replayed(reading.messages[1:2])


def test_offsets_pass_a_commit_only_when_all_of_it_was_delivered() -> None:
    """Whoever restarts in the middle is given the whole span again."""
    reading = Reading("C1 C2 A3")
    sequencer = reading.sequencer
    for message in reading.messages:
        sequencer.queue(message)
    assert sequencer.offsets == {JOURNAL: 20}
    sequencer.step()
    assert sequencer.offsets == {JOURNAL: 20}
    with pytest.raises(SpanUnfinished, match="checkpoint"):
        sequencer.checkpoint()
    with pytest.raises(SpanUnfinished, match="queue"):
        sequencer.queue(reading.messages[0])
    while sequencer.step() is not None:
        pass
    assert sequencer.checkpoint().offsets == {JOURNAL: 30}


def test_a_span_begun_before_a_restart_is_committed_after_it() -> None:
    words = "C1 C2 C3 A4"
    before = Reading(words)
    before.read(before.messages[0])
    before.read(before.messages[1])
    kept = before.sequencer.checkpoint()
    assert kept.producers == (ProducerState(JOURNAL, PRODUCERS["p"], 0, 0),)
    after = Reading(words, checkpoint=kept)
    assert after.run(begin=2) == "- | C1 C2 C3 A4"
    assert after.replays == [(0, 2)]


def test_a_message_repeated_after_a_restart_is_delivered_once() -> None:
    """The restarted sequencer does not know how far the span had come, and need not."""
    words = "C1 C2 C1 C2 C3 A4"
    before = Reading(words)
    before.read(before.messages[0])
    before.read(before.messages[1])
    after = Reading(words, checkpoint=before.sequencer.checkpoint())
    assert after.run(begin=2) == "- | - | - | C1 C2 C3 A4"


def test_what_was_committed_before_a_restart_is_known_after_it() -> None:
    words = "C1 A2 C1 A2 O2 O3"
    before = Reading(words)
    before.read(before.messages[0])
    before.read(before.messages[1])
    after = Reading(words, checkpoint=before.sequencer.checkpoint())
    assert after.run(begin=2) == "- | - | - | O3"


def test_producers_silent_for_longer_than_the_horizon_are_forgotten() -> None:
    reading = Reading("O10 qO50")
    reading.run()
    kept = reading.sequencer.checkpoint(horizon=30)
    assert [state.producer for state in kept.producers] == [PRODUCERS["q"]]
    assert len(reading.sequencer.checkpoint(horizon=40).producers) == 2
    assert len(reading.sequencer.checkpoint().producers) == 2


def test_a_span_that_grows_keeps_its_producer_within_the_horizon() -> None:
    reading = Reading("C10 C49 qO50")
    reading.run()
    kept = {state.producer: state for state in reading.sequencer.checkpoint(horizon=30).producers}
    assert kept[PRODUCERS["p"]].begin == 0
    assert kept[PRODUCERS["q"]].begin == NO_SPAN


def test_the_ring_holds_pending_messages_only() -> None:
    reading = Reading("C1 C2 qC1 A3")
    reading.run()
    assert reading.sequencer.messages_pending == 1
    assert reading.sequencer.has_pending
