"""What a replica shows, completes and sets aside."""

from __future__ import annotations

from typing import Any, cast

from tests.unit.journal.broker.model import JOURNAL, Checker, ModelFiles, ModelIndex, Source, flush
from windrow.journal.broker.head import Head
from windrow.journal.broker.replica import Replica
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.labels import EMPTY
from windrow.journal.spec import ProcessId

MEMBER = ProcessId("zone", "broker-a")


class Held:
    """A replica, and what came out of it."""

    def __init__(self, files: ModelFiles | None = None) -> None:
        self.files = files or ModelFiles()
        self.index = ModelIndex(Checker(), "a")
        self.completed: list[CompletedSpool] = []
        self.replica = Replica(
            JOURNAL,
            member=MEMBER,
            source=cast(Any, Source(self.files)),
            index=cast(Any, self.index),
            complete=self.completed.append,
            is_durable=True,
        )
        self.spool = self.replica.spool.take_now()

    def commit(self, content: bytes) -> None:
        self.spool.apply_content(content, 0)
        self.spool.propose(self.spool.next(), EMPTY, primary=True)

    def roll(self) -> None:
        end = self.spool.fragment.end
        self.spool.propose(Fragment(JOURNAL, end, end), EMPTY, primary=True)

    def under(self, term: int) -> None:
        self.spool.propose(self.spool.fragment, EMPTY, primary=True, term=term)

    @property
    def uploads(self) -> list[tuple[int, int]]:
        return [(one.fragment.begin, one.fragment.end) for one in self.completed]


def test_a_commit_is_shown_once_it_is_acknowledged() -> None:
    held = Held()
    held.commit(b"one")
    held.commit(b"two")
    assert held.index.end_offset == 0
    held.replica.acknowledge(3)
    assert held.index.end_offset == 3
    held.replica.acknowledge(6)
    assert held.index.end_offset == 6


def test_a_rolled_fragment_is_uploaded_only_when_all_of_it_is_acknowledged() -> None:
    held = Held()
    held.commit(b"one")
    held.commit(b"two")
    held.roll()
    held.replica.acknowledge(3)
    assert held.uploads == []
    held.replica.acknowledge(6)
    assert held.uploads == [(0, 6)]


def test_what_was_recovered_is_shown_only_after_the_next_acknowledgement() -> None:
    before = Held()
    before.commit(b"one")
    flush(before.spool)
    before.files.restart()
    after = Held(before.files)
    assert after.index.end_offset == 0
    after.replica.acknowledge(3)
    assert after.index.end_offset == 3


def test_a_spool_of_a_term_that_nobody_remembers_is_set_aside_whole() -> None:
    """J1: it is never proposed and never uploaded."""
    held = Held()
    held.under(70)
    held.commit(b"abandoned")
    flush(held.spool)
    head = Head(1, 90, (str(MEMBER),), end=4)
    held.replica.admit(held.spool, head)
    held.replica.acknowledge(100)
    assert (held.spool.fragment.end, held.uploads, held.index.end_offset) == (0, [], 0)
    assert [file.is_quarantined for file in held.files.files] == [True]


def test_of_a_spool_of_an_earlier_term_what_still_holds_is_kept() -> None:
    """Bytes below the end of its term were acknowledged; it may have the only copy."""
    held = Held()
    held.under(70)
    held.commit(b"heldGONE")
    flush(held.spool)
    head = Head(1, 90, (str(MEMBER),), end=6, ended=((80, 6), (70, 4)))
    held.replica.admit(held.spool, head)
    assert held.uploads == [(0, 4)]
    assert held.completed[0].read_at(0, 10) == b"held"
    assert held.spool.fragment.end == 0


def test_a_spool_that_only_promised_begins_the_term_where_it_was_decided() -> None:
    held = Held()
    held.under(70)
    held.commit(b"heldGONE")
    held.under(90)
    head = Head(1, 90, (str(MEMBER),), end=4, ended=((70, 4),))
    held.replica.admit(held.spool, head)
    assert (held.spool.fragment.begin, held.spool.fragment.end, held.spool.term) == (4, 4, 90)
    assert held.uploads == [(0, 4)]


def test_a_term_of_unknown_outcome_is_taken_again_until_the_head_has_changed() -> None:
    replica = Held().replica
    head = Head(1, 90, (str(MEMBER),), mod_revision=9)
    replica.on_head_undecided(9, 123)
    assert replica.choose_term(head) == 123
    assert replica.choose_term(head) == 123
    assert replica.choose_term(head.written_at(10)) != 123
