"""The spool's little state machine: the rules of proposals, rewinds and terms."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.journal.fragments.spooling import (
    JOURNAL,
    commit,
    durable_spool,
    everything,
    flush,
    fragment,
    memory_spool,
    rewind,
    roll,
)
from windrow.journal.codec import Codec
from windrow.journal.fragment import ZERO_SUM, Fragment
from windrow.journal.fragments.errors import DeltaMismatch, RegistersTooLarge
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.status import Status

ONE = LabelSet.of({"aa": "1"})
TWO = LabelSet.of({"bb": "2"})


def test_next_fragment_sums_the_committed_and_the_pending_content() -> None:
    spool, _ = memory_spool()
    assert spool.next() == Fragment(JOURNAL, 0, 0, ZERO_SUM)
    spool.apply_content(b"foo", 0)
    spool.apply_content(b"bar", 3)
    assert spool.next() == fragment(0, b"foobar")
    assert spool.fragment == fragment(0)


def test_commit_replaces_registers_and_is_observed() -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo", ONE)
    commit(spool, b"bar", TWO)
    assert spool.fragment == fragment(0, b"foobar")
    assert (spool.registers, spool.delta) == (TWO, 0)
    assert observer.commits == [fragment(0, b"foo"), fragment(0, b"foobar")]
    assert everything(spool) == b"foobar"


def test_first_append_time_is_that_of_the_first_commit_of_a_fragment() -> None:
    spool, observer = memory_spool()
    for now in (5.0, 6.0):
        spool.apply_content(b"x", 0)
        spool.propose(spool.next(), EMPTY, primary=True, now=now)
    assert spool.first_append_time == 5.0
    roll(spool)
    assert spool.first_append_time == 0.0
    assert observer.completed[0].first_append_time == 5.0


def test_proposal_of_the_current_fragment_rolls_back() -> None:
    spool, _ = memory_spool()
    commit(spool, b"foo")
    spool.apply_content(b"dropped", 0)
    assert spool.propose(fragment(0, b"foo"), EMPTY, primary=False) is Status.OK
    commit(spool, b"bar")
    assert everything(spool) == b"foobar"
    assert spool.fragment == fragment(0, b"foobar")


def test_content_out_of_step_is_refused() -> None:
    spool, _ = memory_spool()
    spool.apply_content(b"foo", 0)
    with pytest.raises(DeltaMismatch, match=r"delta 2 was offered.*holds 3"):
        spool.apply_content(b"bar", 2)
    spool.apply_content(b"bar", 3)
    assert spool.next() == fragment(0, b"foobar")


def mismatches() -> Iterator[tuple[str, Fragment, LabelSet]]:
    good = fragment(0, b"foobar")
    yield "sum", replace(good, sum=hashlib.sha1(b"other").digest()), EMPTY
    yield "begin", replace(good, begin=1), EMPTY
    yield "codec", replace(good, codec=Codec.GZIP), EMPTY
    yield "journal", replace(good, journal="another/journal"), EMPTY
    yield "shorter", fragment(0, b"fo"), EMPTY
    yield "between", fragment(0, b"fooba"), EMPTY
    yield "current with other registers", fragment(0, b"foo"), ONE
    yield "empty before the end", fragment(2), EMPTY


@pytest.mark.parametrize(("proposal", "registers"), [case[1:] for case in mismatches()])
def test_mismatch_changes_nothing(proposal: Fragment, registers: LabelSet) -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo")
    spool.apply_content(b"bar", 0)
    assert spool.propose(proposal, registers, primary=False) is Status.PROPOSAL_MISMATCH
    assert spool.fragment == fragment(0, b"foo")
    assert (spool.registers, spool.delta, len(observer.commits)) == (EMPTY, 3, 1)
    assert spool.propose(fragment(0, b"foobar"), ONE, primary=False) is Status.OK


def test_empty_proposal_at_the_end_rolls_and_keeps_registers() -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo", ONE)
    proposal = fragment(3, codec=Codec.SNAPPY)
    assert spool.propose(proposal, ONE, primary=True) is Status.OK
    assert (spool.fragment, spool.registers) == (proposal, ONE)
    (completed,) = observer.completed
    assert (completed.fragment, completed.primary) == (fragment(0, b"foo"), True)
    assert completed.read_at(1, 100) == b"oo"


def test_roll_stands_although_its_registers_are_refused() -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo", ONE)
    assert spool.propose(fragment(3), TWO, primary=False) is Status.PROPOSAL_MISMATCH
    assert (spool.fragment, spool.registers) == (fragment(3), ONE)
    assert len(observer.completed) == 1


def test_proposal_beyond_the_spool_rolls_to_its_end_and_takes_its_registers() -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo", ONE)
    spool.apply_content(b"b", 0)
    assert spool.propose(fragment(0, b"foobar"), TWO, primary=False) is Status.PROPOSAL_MISMATCH
    assert (spool.fragment, spool.registers, spool.delta) == (fragment(6), TWO, 0)
    assert [c.fragment for c in observer.completed] == [fragment(0, b"foo")]
    assert spool.propose(fragment(6), TWO, primary=False) is Status.OK


def test_roll_of_an_empty_spool_completes_nothing() -> None:
    spool, observer = memory_spool()
    assert spool.propose(fragment(0, codec=Codec.GZIP), EMPTY, primary=True) is Status.OK
    assert spool.propose(fragment(50, codec=Codec.GZIP), ONE, primary=True) is Status.OK
    assert (spool.fragment, spool.registers) == (fragment(50, codec=Codec.GZIP), ONE)
    assert observer.completed == []


def test_empty_spool_refuses_what_ends_before_it_and_rolls_to_what_lies_beyond() -> None:
    spool, observer = memory_spool()
    assert spool.propose(fragment(9), ONE, primary=False) is Status.OK
    within = Fragment(JOURNAL, 1, 8, hashlib.sha1(b"content").digest())
    assert spool.propose(within, TWO, primary=False) is Status.PROPOSAL_MISMATCH
    assert (spool.fragment, spool.registers) == (fragment(9), ONE)
    beyond = replace(within, end=11)
    assert spool.propose(beyond, TWO, primary=False) is Status.PROPOSAL_MISMATCH
    assert (spool.fragment, spool.registers) == (fragment(11), TWO)
    assert observer.completed == []


def test_same_proposal_twice_is_one_commit() -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo", ONE)
    assert spool.propose(fragment(0, b"foo"), ONE, primary=True) is Status.OK
    assert spool.propose(fragment(0, b"foo"), TWO, primary=True) is Status.PROPOSAL_MISMATCH
    assert (spool.fragment, spool.registers) == (fragment(0, b"foo"), ONE)
    assert observer.commits == [fragment(0, b"foo")]


def test_completed_content_is_readable_while_the_next_fragment_grows() -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo")
    held = spool.content
    roll(spool)
    commit(spool, b"bar")
    assert held.read_at(0, 3) == observer.completed[0].read_at(0, 3) == b"foo"
    assert spool.read_at(3, 100) == b"bar"


# -- rewinds and terms -----------------------------------------------------------------------------


@pytest.mark.parametrize("end", range(7))
def test_rewind_keeps_what_lies_before_it_and_takes_the_given_registers(end: int) -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo", ONE)
    commit(spool, b"bar", TWO)
    spool.apply_content(b"pending", 0)
    assert rewind(spool, end, ONE) is Status.OK
    assert (spool.fragment, spool.registers, spool.delta) == (fragment(end), ONE, 0)
    kept = [fragment(0, b"foobar"[:end])] if end else []
    assert [c.fragment for c in observer.completed] == kept
    commit(spool, b"new")
    assert spool.fragment == fragment(end, b"new")


def test_rewind_beyond_the_end_rolls_forward() -> None:
    spool, observer = memory_spool()
    commit(spool, b"foo", ONE)
    assert rewind(spool, 10, TWO) is Status.OK
    assert (spool.fragment, spool.registers) == (fragment(10), TWO)
    assert len(observer.completed) == 1


def test_rewind_cannot_give_up_an_earlier_fragment() -> None:
    spool, _ = memory_spool()
    commit(spool, b"foobar")
    roll(spool)
    assert rewind(spool, 3) is Status.PROPOSAL_MISMATCH
    assert spool.fragment == fragment(6)


def test_rewind_is_idempotent() -> None:
    spool, observer = memory_spool()
    commit(spool, b"foobar")
    assert rewind(spool, 3, ONE) is Status.OK
    assert rewind(spool, 3, ONE) is Status.OK
    assert len(observer.completed) == 1


def test_proposal_with_a_term_asks_without_making_the_asked_forget() -> None:
    """J3: rolled on one replica's word, the lowest end would be known to nobody."""
    spool, observer = memory_spool()
    commit(spool, b"foo", ONE)
    answer = spool.propose(fragment(0, b"foobar"), TWO, primary=False, term=9)
    assert answer is Status.PROPOSAL_MISMATCH
    assert (spool.fragment, spool.registers) == (fragment(0, b"foo"), ONE)
    assert observer.completed == []
    assert spool.agreed_term == 0


def test_term_is_agreed_to_at_sync_and_taken_with_the_first_content() -> None:
    spool, _ = memory_spool()
    commit(spool, b"foo", term=1)
    assert (spool.term, spool.agreed_term) == (1, 1)
    assert spool.propose(spool.fragment, EMPTY, primary=False, term=2) is Status.OK
    assert (spool.term, spool.agreed_term) == (1, 2)
    assert spool.belongs_to(1)
    assert spool.belongs_to(2)
    commit(spool, b"bar")
    assert (spool.term, spool.agreed_term) == (2, 2)
    assert not spool.belongs_to(1)


def test_confirmed_term_is_not_forgotten_by_an_agreement_that_comes_to_nothing() -> None:
    spool, _ = memory_spool()
    commit(spool, b"foo", term=1)
    spool.propose(spool.fragment, EMPTY, primary=False, term=2)
    spool.confirm_term(2)
    spool.propose(spool.fragment, EMPTY, primary=False, term=3)
    assert spool.belongs_to(2)
    assert not spool.belongs_to(1)


def test_confirming_a_term_never_agreed_to_changes_nothing() -> None:
    spool, _ = memory_spool()
    commit(spool, b"foo", term=1)
    spool.confirm_term(5)
    spool.confirm_term(0)
    assert (spool.term, spool.agreed_term) == (1, 1)


def test_registers_too_large_for_a_slot_are_refused_before_anything_changes(tmp_path: Path) -> None:
    spool, observer = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    huge = LabelSet.of({f"name-{i:02}": "x" * 1024 for i in range(16)})
    spool.apply_content(b"bar", 0)
    for proposal in (spool.next(), fragment(3), fragment(9)):
        with pytest.raises(RegistersTooLarge, match=r"takes \d+ bytes"):
            spool.propose(proposal, huge, primary=True)
    assert (spool.fragment, spool.registers, spool.delta) == (fragment(0, b"foo"), ONE, 3)
    assert observer.completed == []
    assert spool.propose(spool.next(), TWO, primary=True) is Status.OK
    flush(spool)


# -- against a model -------------------------------------------------------------------------------

contents = st.binary(min_size=1, max_size=6)
steps = st.one_of(
    st.tuples(st.just("content"), contents),
    st.tuples(st.sampled_from(["commit", "rollback", "roll", "wrong"]), st.just(b"")),
    st.tuples(st.just("rewind"), st.integers(0, 20)),
    st.tuples(st.just("forward"), st.integers(1, 5)),
)


@given(st.lists(steps, max_size=30))
def test_spool_agrees_with_a_model_of_it(script: list[tuple[str, bytes | int]]) -> None:
    """Whatever the order: the committed bytes are exactly those of accepted proposals."""
    spool, observer = memory_spool()
    begin, committed, pending = 0, b"", b""
    done: list[Fragment] = []
    for name, detail in script:
        end = begin + len(committed)
        if name == "content":
            assert isinstance(detail, bytes)
            spool.apply_content(detail, len(pending))
            pending += detail
            continue
        if name == "commit":
            committed += pending
            proposal = fragment(begin, committed)
        elif name == "rollback":
            proposal = fragment(begin, committed)
        elif name == "wrong":
            if not committed:
                continue  # an empty proposal at the end rolls, whatever its sum
            answer = spool.propose(Fragment(JOURNAL, begin, end, b"\1" * 20), EMPTY, primary=False)
            assert answer is Status.PROPOSAL_MISMATCH
            continue
        else:
            to = _target(name, detail, begin, end)
            if to < begin:
                assert rewind(spool, to) is Status.PROPOSAL_MISMATCH
                continue
            kept = committed[: to - begin]
            done += [fragment(begin, kept)] if kept else []
            begin, committed, proposal = to, b"", fragment(to)
        is_rewind = name == "rewind"
        assert spool.propose(proposal, EMPTY, primary=False, rewind=is_rewind) is Status.OK
        pending = b""
        assert spool.fragment == fragment(begin, committed)
        assert everything(spool) == committed
    assert [completed.fragment for completed in observer.completed] == done
    for completed in observer.completed:
        content = completed.read_at(completed.fragment.begin, completed.fragment.length)
        assert hashlib.sha1(content).digest() == completed.fragment.sum


def _target(name: str, detail: bytes | int, begin: int, end: int) -> int:
    assert name in ("roll", "rewind", "forward")
    if isinstance(detail, bytes):
        return end
    return detail if name == "rewind" else end + detail + 100
