"""Durable spools: what is left of them after a stop at any point."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.journal.fragments.crashing import Inline, Operation, RecordingOs, leave_behind
from tests.unit.journal.fragments.spooling import (
    JOURNAL,
    Remembering,
    commit,
    durable_spool,
    everything,
    flush,
    fragment,
    recovered,
    rewind,
    roll,
)
from windrow.journal.fragment import Fragment
from windrow.journal.fragments import spool_file
from windrow.journal.fragments.errors import SpoolBroken, SpoolWriteFailed
from windrow.journal.fragments.recover import recover_journal, recover_spools
from windrow.journal.fragments.slot import SLOT_SIZE, CommitRecord, decode_slot, encode_slot
from windrow.journal.fragments.spool import Spool
from windrow.journal.fragments.spool_file import CONTENT_START, DurableFile, DurableFiles, escaped
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.status import Status

ONE = LabelSet.of({"aa": "1"})
TWO = LabelSet.of({"bb": "2"})


def files_of(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / escaped(JOURNAL)).iterdir())


# -- slots -----------------------------------------------------------------------------------------


def test_slot_returns_the_record_it_was_given() -> None:
    record = CommitRecord(fragment(5, b"content"), ONE, 1, 2**64 - 1, 3, 4.5, True, 6)
    assert decode_slot(encode_slot(record)) == record
    assert decode_slot(encode_slot(record).ljust(SLOT_SIZE, b"\xff")) == record


def test_slot_with_any_byte_changed_or_cut_off_is_none_at_all() -> None:
    slot = encode_slot(CommitRecord(fragment(5, b"content"), ONE, sequence=3))
    for at in range(len(slot)):
        flipped = slot[:at] + bytes([slot[at] ^ 1]) + slot[at + 1 :]
        assert decode_slot(flipped.ljust(SLOT_SIZE, b"\0")) is None
        assert decode_slot(slot[:at].ljust(SLOT_SIZE, b"\0")) is None
        assert decode_slot(slot[:at]) is None


# -- recovery --------------------------------------------------------------------------------------


def test_spool_is_opened_again_without_its_content_being_read_once_more(tmp_path: Path) -> None:
    """Recovery has read it, beside the event loop; another time would be within it."""
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    flush(spool)
    found = recover_journal(tmp_path, JOURNAL)
    assert found is not None
    files = DurableFiles(tmp_path, Inline())
    with patch.object(DurableFile, "read", side_effect=AssertionError("it is read")):
        again = found.resume(files, Remembering())
        commit(again, b"bar", ONE)
    assert again.fragment.sum == fragment(0, b"foobar").sum


def test_spool_goes_on_from_its_last_flushed_commit(tmp_path: Path) -> None:
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"foo", ONE, term=4)
    assert spool.propose(spool.fragment, ONE, primary=False, term=5) is Status.OK
    flush(spool)
    spool.apply_content(b"never committed", 0)

    found = recovered(tmp_path)
    assert (found.journal, found.create_revision, found.completed) == (JOURNAL, 7, ())
    again = found.resume(DurableFiles(tmp_path), Remembering())
    assert (again.fragment, again.registers) == (fragment(0, b"foo"), ONE)
    assert (again.term, again.agreed_term, again.create_revision) == (4, 5, 7)
    assert (again.first_append_time, again.is_flushed) == (1_000.0, True)
    commit(again, b"bar")
    assert again.fragment == fragment(0, b"foobar")
    flush(again)
    final = recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering())
    assert everything(final) == b"foobar"


def test_nothing_is_found_where_nothing_was_written(tmp_path: Path) -> None:
    durable_spool(tmp_path)
    assert recover_spools(tmp_path) == []
    assert recover_spools(tmp_path / "missing") == []
    assert recover_journal(tmp_path, JOURNAL) is None


def test_journals_are_told_apart_whatever_their_names(tmp_path: Path) -> None:
    names = ["a/b/c", "a/b", "a%2Fb", "x" * 512, "x" * 511 + "y", "é" * 256]
    for name in names:
        spool = Spool(name, DurableFiles(tmp_path), Remembering())
        spool.apply_content(name.encode(), 0)
        spool.propose(spool.next(), EMPTY, primary=True)
        flush(spool)
    assert {found.journal for found in recover_spools(tmp_path)} == set(names)
    found = recover_journal(tmp_path, names[-1])
    assert found is not None
    assert found.journal == names[-1]


def test_completed_spool_is_found_until_it_is_persisted(tmp_path: Path) -> None:
    spool, observer = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    roll(spool)
    commit(spool, b"bar")
    flush(spool)
    found = recovered(tmp_path)
    assert [c.fragment for c in found.completed] == [fragment(0, b"foo")]
    assert found.completed[0].read_at(0, 3) == b"foo"
    observer.completed[0].on_persisted()
    assert recovered(tmp_path).completed == ()
    assert observer.completed[0].read_at(0, 3) == b"foo"


def test_registers_outlive_the_rolled_spool(tmp_path: Path) -> None:
    """J2: rolled, uploaded, dropped, killed: an empty set would match every selector."""
    spool, observer = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    flush(spool)
    roll(spool)
    flush(spool)
    observer.completed[0].on_persisted()
    assert len(files_of(tmp_path)) == 1
    again = recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering())
    assert (again.fragment, again.registers) == (fragment(3), ONE)


def test_rolled_file_stays_until_the_one_that_follows_is_durable(tmp_path: Path) -> None:
    """J2: an upload may end before the next flush, and the registers have no other home yet."""
    spool, observer = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    flush(spool)
    roll(spool)
    observer.completed[0].on_persisted()
    again = recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering())
    assert (again.fragment, again.registers) == (fragment(0, b"foo"), ONE)


def test_rolled_file_goes_with_the_flush_of_the_one_that_follows(tmp_path: Path) -> None:
    spool, observer = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    roll(spool)
    observer.completed[0].on_persisted()
    flush(spool)
    assert len(files_of(tmp_path)) == 1
    assert recovered(tmp_path).completed == ()


def test_bytes_given_up_by_a_rewind_do_not_come_back(tmp_path: Path) -> None:
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"foobar", ONE)
    flush(spool)
    rewind(spool, 3, TWO)
    flush(spool)
    found = recovered(tmp_path)
    assert [c.fragment for c in found.completed] == [fragment(0, b"foo")]
    assert found.current is not None
    assert found.current.record.fragment == fragment(3)
    rewind(spool, 3, EMPTY)
    flush(spool)
    assert recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering()).registers == EMPTY


def test_quarantined_spool_is_kept_and_never_found(tmp_path: Path) -> None:
    """J1: a branch that was given up is for people to look at, not for brokers."""
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"abandoned", ONE, term=1)
    flush(spool)
    spool.quarantine()
    assert (spool.fragment, spool.registers, spool.term) == (fragment(0), EMPTY, 0)
    assert recover_spools(tmp_path) == []
    assert files_of(tmp_path)[0].endswith(".spool.quarantined")
    commit(spool, b"new", TWO, term=2)
    flush(spool)
    again = recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering())
    assert (everything(again), again.term) == (b"new", 2)


def test_recovered_files_of_a_deleted_journal_can_all_be_set_aside(tmp_path: Path) -> None:
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"foo")
    roll(spool)
    flush(spool)
    found = recovered(tmp_path)
    found.quarantine()
    assert recover_spools(tmp_path) == []
    assert len(files_of(tmp_path)) == 2


def test_file_that_was_uploaded_meanwhile_can_still_be_set_aside(tmp_path: Path) -> None:
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"foo")
    roll(spool)
    flush(spool)
    found = recovered(tmp_path)
    found.completed[0].on_persisted()
    found.quarantine()
    assert [name.endswith(".quarantined") for name in files_of(tmp_path)] == [True]


def test_last_file_that_does_not_verify_behind_a_sealed_one_is_a_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file before it must not pass for the journal's end: acknowledged bytes lie beyond."""
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    roll(spool)
    commit(spool, b"bar", TWO)
    flush(spool)
    last = tmp_path / escaped(JOURNAL) / files_of(tmp_path)[-1]
    last.write_bytes(b"\1" * CONTENT_START)
    found = recovered(tmp_path)
    assert found.current is None
    assert [c.fragment for c in found.completed] == [fragment(0, b"foo")]
    assert "does not verify" in caplog.text
    assert found.resume(DurableFiles(tmp_path), Remembering()).fragment == fragment(0)


def test_slot_whose_content_is_lost_gives_way_to_the_one_before(tmp_path: Path) -> None:
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    flush(spool)
    commit(spool, b"bar", TWO)
    flush(spool)
    (path,) = (tmp_path / escaped(JOURNAL)).iterdir()
    with path.open("r+b") as file:
        file.seek(CONTENT_START + 4)
        file.write(b"?")
    again = recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering())
    assert (everything(again), again.registers) == (b"foo", ONE)
    # The slot that still verifies is the one thing not to write over.
    commit(again, b"baz", TWO)
    with path.open("rb") as file:
        before = file.read(CONTENT_START)
    flush(again)
    with path.open("rb") as file:
        after = file.read(CONTENT_START)
    good = [decode_slot(before[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE)]
    kept = [decode_slot(after[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE)]
    assert [r for r in good if r and r.fragment.end == 3] == [
        r for r in kept if r and r.fragment.end == 3
    ]


# -- failing disks ---------------------------------------------------------------------------------


class Faulty(DurableFiles):
    """Files whose syncs fail on demand, and are counted."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, Inline())
        self.syncs, self.is_failing = 0, False
        self.has_begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def create(self, journal: str, begin: int) -> DurableFile:
        file = super().create(journal, begin)
        assert isinstance(file, DurableFile)
        sync = file.sync

        def counted(record: CommitRecord) -> None:
            self.syncs += 1
            self.has_begun.set()
            self.go_on.wait(30)
            if self.is_failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(record)

        file.sync = counted  # type: ignore[method-assign]
        return file


def test_failed_sync_fails_the_spool_for_good(tmp_path: Path) -> None:
    """J4: a second sync may well succeed, without the pages that the first one lost."""
    files = Faulty(tmp_path)
    spool = Spool(JOURNAL, files, Remembering())
    commit(spool, b"foo")
    flush(spool)
    commit(spool, b"bar")
    files.is_failing = True
    with pytest.raises(SpoolBroken, match=r"sync of .*\.spool failed: .*Input/output"):
        flush(spool)
    files.is_failing = False
    tried = files.syncs
    with pytest.raises(SpoolBroken):
        flush(spool)
    with pytest.raises(SpoolBroken):
        spool.apply_content(b"more", 0)
    with pytest.raises(SpoolBroken):
        spool.propose(spool.fragment, EMPTY, primary=True)
    assert files.syncs == tried
    again = recovered(tmp_path).resume(files, Remembering())
    assert everything(again) == b"foo"


def test_failed_sync_counts_although_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    """J4: the one who asked was cancelled; the next must not find a sync that succeeds."""

    async def scenario() -> None:
        with ThreadPoolExecutor(1) as pool:
            files = Faulty(tmp_path)
            files.executor = pool
            observer = Remembering()
            spool = Spool(JOURNAL, files, observer)
            commit(spool, b"foo")
            files.is_failing = True
            waiting = asyncio.create_task(spool.flush())
            assert await asyncio.to_thread(files.has_begun.wait, 30)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            files.is_failing = False
            with pytest.raises(SpoolBroken):
                await spool.flush()
            assert files.syncs == 1
            assert [error.journal for error in observer.broken] == [JOURNAL]

    asyncio.run(scenario())


def test_failed_write_leaves_the_spool_usable(tmp_path: Path) -> None:
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"foo")
    with (
        patch("os.pwrite", side_effect=OSError(errno.ENOSPC, "full")),
        pytest.raises(SpoolWriteFailed, match="cannot write its spool at offset 3: full"),
    ):
        spool.apply_content(b"bar", 0)
    spool.rollback()
    commit(spool, b"baz")
    flush(spool)
    assert everything(recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering())) == (
        b"foobaz"
    )


def test_roll_without_room_for_a_file_changes_nothing(tmp_path: Path) -> None:
    spool, observer = durable_spool(tmp_path)
    commit(spool, b"foo", ONE)
    flush(spool)
    with (
        patch("os.posix_fallocate", side_effect=OSError(errno.ENOSPC, "full")),
        pytest.raises(SpoolWriteFailed, match="full; make room"),
    ):
        roll(spool)
    assert (spool.fragment, observer.completed) == (fragment(0, b"foo"), [])
    assert len(files_of(tmp_path)) == 1
    commit(spool, b"bar")
    flush(spool)
    found = recovered(tmp_path)
    assert found.current is not None
    assert (found.current.record.fragment, found.completed) == (fragment(0, b"foobar"), ())
    roll(spool)
    flush(spool)
    assert recovered(tmp_path).completed[0].fragment == fragment(0, b"foobar")


# -- commit groups ---------------------------------------------------------------------------------


def test_callers_at_the_same_time_share_a_sync(tmp_path: Path) -> None:
    """Who arrives while a sync runs shares the next one: two syncs for any number of commits."""

    async def scenario() -> None:
        with ThreadPoolExecutor(1) as pool:
            files = Faulty(tmp_path)
            files.executor = pool
            spool = Spool(JOURNAL, files, Remembering())
            files.go_on.clear()
            commit(spool, b"first")
            flushes = [asyncio.create_task(spool.flush())]
            assert await asyncio.to_thread(files.has_begun.wait, 30)
            for _ in range(50):
                commit(spool, b"another")
                flushes.append(asyncio.create_task(spool.flush()))
            files.go_on.set()
            await asyncio.gather(*flushes)
            assert files.syncs == 2
            assert spool.is_flushed

    asyncio.run(scenario())
    assert recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering()).fragment.end == 355


def test_flush_with_nothing_to_do_does_nothing(tmp_path: Path) -> None:
    files = Faulty(tmp_path)
    spool = Spool(JOURNAL, files, Remembering())
    flush(spool)
    commit(spool, b"foo")
    flush(spool)
    spool.apply_content(b"x", 0)
    spool.propose(spool.fragment, EMPTY, primary=True)
    flush(spool)
    assert files.syncs == 1


def test_commit_made_between_the_wish_and_the_sync_is_in_the_record(tmp_path: Path) -> None:
    """What a sync is said to cover must be what it wrote."""

    async def scenario() -> None:
        spool = Spool(JOURNAL, DurableFiles(tmp_path, Inline()), Remembering())
        for steps in range(5):
            commit(spool, b"wanted")
            flushing = asyncio.create_task(spool.flush())
            for _ in range(steps):
                await asyncio.sleep(0)
            commit(spool, b"in between")
            await flushing
            found = recovered(tmp_path).current
            assert found is not None
            assert (found.record.fragment == spool.fragment) == spool.is_flushed
            await spool.flush()

    asyncio.run(scenario())


# -- a stop at any point ---------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """What a spool may truthfully say after a stop."""

    fragment: Fragment
    registers: LabelSet
    term: int
    agreed_term: int
    journal: bytes
    """All bytes up to the fragment's end."""


class Run:
    """A spool driven by a script, its states, and which of them were flushed at which operation."""

    def __init__(self, root: Path) -> None:
        self.recording = RecordingOs()
        self.observer = Remembering()
        self.spool = Spool(JOURNAL, DurableFiles(root, Inline()), self.observer)
        self.journal = b""
        self.states: list[State] = []
        self.flushed: list[tuple[int, int]] = []
        self.remember()

    def remember(self) -> None:
        s = self.spool
        self.states.append(State(s.fragment, s.registers, s.term, s.agreed_term, self.journal))

    async def step(self, action: str, number: int) -> None:
        spool = self.spool
        registers = LabelSet.of({"nn": str(len(self.states))})
        if action == "commit":
            content = bytes([65 + number % 26]) * (number * 37 % 5_000 + 1)
            commit(spool, content, registers, term=number % 3)
            self.journal += content
        elif action == "agree":
            spool.propose(spool.fragment, spool.registers, primary=False, term=number + 10)
        elif action == "abandon":
            spool.apply_content(b"?" * (number * 7 + 1), 0)
            spool.rollback()
        elif action == "roll":
            roll(spool)
        elif action == "rewind":
            end = spool.fragment.begin + spool.fragment.length * number // 100
            assert rewind(spool, end, registers) is Status.OK
            self.journal = self.journal[:end]
        elif action == "flush":
            await spool.flush()
            self.flushed.append((len(self.recording.log), len(self.states) - 1))
            return
        self.remember()


actions = st.sampled_from(["commit", "commit", "agree", "abandon", "roll", "rewind", "flush"])
scripts = st.lists(st.tuples(actions, st.integers(0, 100)), min_size=1, max_size=14)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(scripts, st.data())
def test_stop_at_any_point_recovers_the_last_flushed_state_or_a_later_one(
    script: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Torn slots, torn content, lost tails, lost names: what was flushed is there, and whole."""
    root = Path(tempfile.mkdtemp(prefix="windrow-crash-"))
    try:
        run = Run(root / "before")
        (root / "before").mkdir()
        with patch.object(spool_file, "os", run.recording):
            asyncio.run(_play(run, script))
        stop = data.draw(st.integers(0, len(run.recording.log)), label="stop after")
        leave_behind(
            run.recording.log[:stop],
            root / "before",
            root / "after",
            lambda operation: data.draw(_spans(operation), label=operation.name),
        )
        _check(run, stop, root / "after")
    finally:
        shutil.rmtree(root)


async def _play(run: Run, script: list[tuple[str, int]]) -> None:
    for action, number in [*script, ("flush", 0)]:
        await run.step(action, number)


def _spans(operation: Operation) -> st.SearchStrategy[tuple[int, int]]:
    length = max(len(operation.content), 1)
    whole, nothing = (0, length), (0, 0)
    torn = st.tuples(st.integers(0, length), st.integers(0, length)).map(
        lambda span: (min(span), max(span))
    )
    return st.one_of(st.just(whole), st.just(nothing), torn)


def _check(run: Run, stop: int, directory: Path) -> None:
    before = [state for at, state in run.flushed if at <= stop]
    oldest = max(before, default=0)
    found = recover_spools(directory)
    spool: Any = found[0].resume(DurableFiles(directory), Remembering()) if found else None
    if spool is None:
        assert run.states[oldest].fragment == fragment(0)
        assert run.states[oldest].agreed_term == 0
        return
    state = _state_of(run, spool, oldest)
    assert everything(spool) == state.journal[spool.fragment.begin :]
    _check_completed(state, found[0].completed, spool.fragment.begin)


def _state_of(run: Run, spool: Spool, oldest: int) -> State:
    """The state, flushed or later, that the recovered spool is in."""
    said = (spool.registers, spool.term, spool.agreed_term)
    for state in run.states[oldest:]:
        same_end = state.fragment.end == spool.fragment.end
        if same_end and said == (state.registers, state.term, state.agreed_term):
            return state
    raise AssertionError(f"{spool.fragment} with {said} was never flushed, nor later")


def _check_completed(state: State, completed: tuple[Any, ...], current_begin: int) -> None:
    """Every byte before the current fragment is in a completed one, as it was written."""
    covered = 0
    for spool in completed:
        begin, end = spool.fragment.begin, spool.fragment.end
        assert begin <= covered
        assert spool.read_at(begin, end) == state.journal[begin:end]
        covered = max(covered, end)
    assert covered == current_begin
