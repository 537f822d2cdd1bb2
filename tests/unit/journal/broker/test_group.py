"""Appends that are committed together, each judged behind the one before."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.journal.broker.appends import JOURNAL, member_of
from windrow.journal.broker.group import REGISTERS_NEED_BYTES, WriteHead, evaluate
from windrow.journal.labels import EMPTY, LabelSelector, LabelSet
from windrow.journal.spec import Codec, SuspendControl
from windrow.journal.status import Status

HEAD = WriteHead(JOURNAL, 100, EMPTY, Codec.NONE)


def labels(**values: str) -> LabelSet:
    return LabelSet.of({f"reg-{name}": value for name, value in values.items()})


def expects(text: str) -> dict[str, Any]:
    return {"check_registers": LabelSelector.parse(text)}


def test_each_member_has_its_own_span_and_sum() -> None:
    plan = evaluate([member_of(b"abc"), member_of(b""), member_of(b"de")], HEAD)
    assert plan.content == b"abcde"
    commits = [verdict.commit for verdict in plan.verdicts if verdict.commit]
    assert [(one.begin, one.end) for one in commits] == [(100, 103), (103, 103), (103, 105)]
    assert commits[0].sum == hashlib.sha1(b"abc").digest()
    assert commits[1].sum == bytes(20)
    assert commits[2].sum == hashlib.sha1(b"de").digest()


def test_a_member_sees_the_registers_of_the_one_before_it() -> None:
    """Two writers that both expect the first state: just one of them gets it."""
    head = replace(HEAD, registers=labels(owner="none"))
    claim = [
        member_of(b"x", union_registers=labels(owner=name), **expects("reg-owner=none"))
        for name in ("one", "two")
    ]
    plan = evaluate(claim, head)
    assert [one.status for one in plan.verdicts] == [Status.OK, Status.REGISTER_MISMATCH]
    assert plan.verdicts[1].registers == plan.registers == labels(owner="one")
    assert plan.content == b"x"


def test_registers_are_subtracted_then_joined_and_new_values_win() -> None:
    head = replace(HEAD, registers=labels(a="1", b="2", c="3"))
    change = member_of(
        b"x", union_registers=labels(b="9"), subtract_registers=labels(a="1", c="other")
    )
    assert evaluate([change], head).registers == labels(b="9", c="3")


def test_empty_registers_are_what_everybody_expects() -> None:
    plan = evaluate([member_of(b"x", **expects("reg-owner=me"))], HEAD)
    assert plan.verdicts[0].status is Status.OK


def test_a_sequenced_journal_with_bytes_but_no_registers_has_lost_them() -> None:
    """J2: an empty set would let any old batch in again."""
    checked = member_of(b"x", **expects("reg-last=7"))
    lost = replace(HEAD, is_sequenced=True)
    assert evaluate([checked], lost).verdicts[0].status is Status.REGISTER_MISMATCH
    new = replace(lost, offset=0)
    assert evaluate([checked], new).verdicts[0].status is Status.OK
    assert evaluate([member_of(b"x")], lost).verdicts[0].status is Status.OK


def test_an_offset_is_checked_against_the_write_head_behind_earlier_members() -> None:
    members = [member_of(b"abc"), member_of(b"d", offset=103), member_of(b"e", offset=103)]
    plan = evaluate(members, HEAD)
    assert [one.status for one in plan.verdicts] == [
        Status.OK,
        Status.OK,
        Status.WRONG_APPEND_OFFSET,
    ]
    assert plan.content == b"abcd"


@pytest.mark.parametrize(
    ("member", "head", "status"),
    [
        (member_of(b"x"), replace(HEAD, is_writable=False), Status.NOT_ALLOWED),
        (member_of(b""), replace(HEAD, is_writable=False, indexed_end=500), Status.OK),
        (member_of(b"x"), replace(HEAD, indexed_end=500), Status.INDEX_HAS_GREATER_OFFSET),
        (member_of(b"x", suspend=SuspendControl.KEEP), HEAD, Status.NOT_ALLOWED),
    ],
)
def test_a_member_that_may_not_write_is_refused_by_itself(
    member: Any, head: WriteHead, status: Status
) -> None:
    plan = evaluate([member], head)
    assert plan.verdicts[0].status is status
    assert plan.content == b""


def test_registers_without_bytes_fail_that_member_alone() -> None:
    members = [member_of(b"", union_registers=labels(a="1")), member_of(b"x")]
    plan = evaluate(members, HEAD)
    assert plan.verdicts[0].error == REGISTERS_NEED_BYTES
    assert plan.verdicts[1].commits
    assert plan.registers == EMPTY
