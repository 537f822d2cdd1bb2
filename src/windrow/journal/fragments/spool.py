"""The spool: a replica's transactional memory of a journal, and its own little state machine.

Content is written behind the committed fragment as it arrives, and counts for nothing. A proposal
then names the fragment that is to be adopted:

1. One that lies beyond all the spool has, or is empty at its end, *rolls* it: the committed
   fragment is completed, and the spool becomes empty at the proposal's end. This stands even if
   the proposal is refused after all.
2. One equal to the current fragment and registers drops the uncommitted content.
3. One equal to the fragment that the content makes *commits* it, and replaces the registers.
4. Any other is a mismatch, and changes nothing.

Three things are added for spools that outlive their process. A proposal that carries a **term**
comes from a primary that settles disagreement by ``rewind``; it must be able to ask without making
the asked forget, so it rolls by rule 1 only if it is empty. A **rewind** gives up what lies beyond
an empty proposal's end, because it was acknowledged to nobody. And the spool remembers the
**term** of its content and the one it ``agreed`` to since: a spool whose terms are not the
journal's belongs to a branch that was given up.

``propose`` changes memory and the page cache only. ``flush`` makes it durable; nothing may be
acknowledged before it returns.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from windrow.journal.codec import Codec
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.commit_group import CommitGroup, Sync
from windrow.journal.fragments.content import CompletedSpool, SpoolContent, SpoolObserver
from windrow.journal.fragments.errors import DeltaMismatch, SpoolBroken, SpoolWriteFailed
from windrow.journal.fragments.slot import CommitRecord, check_fits
from windrow.journal.fragments.spool_file import SpoolFile, SpoolFiles
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.status import Status


class Spool:
    """What one replica holds of a journal's end. Owned by one task at a time.

    Every method but ``flush`` is synchronous. ``SpoolWriteFailed`` and ``RegistersTooLarge`` leave
    the spool as it was, and usable; ``SpoolBroken`` is for good.
    """

    def __init__(
        self,
        journal: str,
        files: SpoolFiles,
        observer: SpoolObserver,
        *,
        create_revision: int = 0,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.journal = journal
        self.create_revision = create_revision
        self.fragment = Fragment(journal, codec=codec)
        self.registers = EMPTY
        self.delta = 0
        self.term = 0
        self.agreed_term = 0
        self.first_append_time = 0.0
        self.acknowledged_end = 0
        """How far everything is known to be acknowledged; goes to disk with the next record."""
        self._files = files
        self._observer = observer
        self._file: SpoolFile | None = None
        self._committed_sum = _new_sum()
        self._sum = _new_sum()
        self._group = CommitGroup(files.executor, self._on_sync_failed)
        self._predecessors: list[_Predecessor] = []

    @classmethod
    def resumed(
        cls,
        record: CommitRecord,
        content: SpoolContent,
        running: hashlib._Hash,
        files: SpoolFiles,
        observer: SpoolObserver,
    ) -> Spool:
        """The spool of a recovered file, in the state of its last durable commit.

        ``running`` is the SHA-1 of its content up to there.
        """
        fragment = record.fragment
        spool = cls(fragment.journal, files, observer, create_revision=record.create_revision)
        spool.fragment, spool.registers = fragment, record.registers
        spool.term, spool.agreed_term = record.term, record.agreed_term
        spool.first_append_time = record.first_append_time
        spool.acknowledged_end = record.acknowledged_end
        spool._file = content.file
        spool._committed_sum = running.copy()
        spool._sum = spool._committed_sum.copy()
        return spool

    @property
    def is_durable(self) -> bool:
        """Whether its content outlives the process."""
        return self._files.is_durable

    @property
    def is_flushed(self) -> bool:
        """Whether ``flush`` has nothing to do."""
        return self._group.is_durable

    @property
    def content(self) -> SpoolContent:
        """The bytes of the current fragment, readable for as long as the result is held."""
        return SpoolContent(self.fragment.begin, self._open_file())

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` committed bytes from ``offset``."""
        return self.content.read_at(offset, min(size, self.fragment.end - offset))

    def next(self) -> Fragment:
        """The fragment which the content since the last commit would make."""
        if not self.delta:
            return self.fragment
        end = self.fragment.end + self.delta
        return replace(self.fragment, end=end, sum=self._sum.digest())

    def belongs_to(self, term: int) -> bool:
        """Whether the content is that of the journal's ``term``."""
        return term in (self.term, self.agreed_term)

    # -- what happens to it ----------------------------------------------------------------------

    def apply_content(self, content: bytes, delta: int) -> None:
        """Write content behind all that the spool holds; it counts for nothing until committed.

        Raises:
            DeltaMismatch: It does not follow what came before; the stream is broken.
            SpoolWriteFailed: The file cannot take it. Roll back, and the spool is as before.
        """
        self._check_usable()
        if delta != self.delta:
            raise DeltaMismatch(self.journal, self.delta, delta)
        file = self._open_file()
        try:
            file.write(content, self.fragment.length + delta)
        except OSError as error:
            raise self._write_failed(error) from error
        self._sum.update(content)
        self.delta += len(content)

    def rollback(self) -> None:
        """Drop the content since the last commit."""
        if self.delta:
            self.delta = 0
            self._sum = self._committed_sum.copy()

    def propose(
        self,
        proposal: Fragment,
        registers: LabelSet,
        *,
        primary: bool,
        term: int = 0,
        rewind: bool = False,
        now: float = 0.0,
    ) -> Status:
        """Adopt the proposal, by the rules of this module, or answer with a mismatch.

        ``primary`` is told to whoever uploads a completed fragment; ``term`` is that of an
        acknowledged proposal, 0 if there is none; ``now`` becomes the time of a first append.

        Raises:
            RegistersTooLarge: They do not fit into a durable spool.
            SpoolWriteFailed: There is no room for the file the proposal needs.
        """
        self._check_usable()
        if self.is_durable and registers != self.registers:
            check_fits(self.journal, registers)
        if rewind and proposal.is_empty and self.fragment.begin <= proposal.end:
            self._rewind(proposal, registers, primary)
        elif self._rolls(proposal, term):
            adopted = registers if proposal.end > self.fragment.end else self.registers
            self._roll(proposal, adopted, primary, keep_to=self.fragment.end)

        if proposal == self.fragment and registers == self.registers:
            self._agree_to(term)
            self.rollback()
            return Status.OK
        if self.delta and proposal == self.next():
            self._commit(proposal, registers, term, now)
            return Status.OK
        return Status.PROPOSAL_MISMATCH

    def confirm_term(self, head_term: int) -> None:
        """The journal's head names ``head_term``: what was agreed to under it is now its content.

        Call it before a proposal under yet another term. Otherwise that agreement, if it comes to
        nothing, would be all that the spool remembers, and the term it really belongs to is lost.
        """
        if head_term and head_term == self.agreed_term and head_term != self.term:
            self.term = head_term
            self._changed()

    def begin_flush(self) -> int:
        """Begin to make durable what was adopted so far; returns what to wait for by ``flush``.

        Raises:
            SpoolBroken: A sync has failed before.
        """
        self._check_usable()
        self._group.begin(self._begin_sync)
        return self._group.changes

    async def flush(self, begun: int | None = None) -> None:
        """Return once everything adopted so far is durable, or before what was begun.

        Callers at the same time share a sync.

        Raises:
            SpoolBroken: A sync failed, now or before. The replica has to fail.
        """
        self._check_usable()
        wanted = self._group.changes if begun is None else begun
        if self._group.durable_changes < wanted:
            await self._group.flush(self._begin_sync, wanted)
            self._check_usable()

    def quarantine(self) -> None:
        """Set the content aside, never to be proposed or uploaded, and start from nothing."""
        if self._file is not None:
            self._file.quarantine()
        self._become(Fragment(self.journal, codec=self.fragment.codec), EMPTY, None)
        self.term = self.agreed_term = 0
        self._group.durable_changes = self._group.changes

    def remove(self) -> None:
        """Forget the journal: this broker is no longer assigned to it."""
        if self._file is not None:
            self._file.remove()

    # -- transitions -----------------------------------------------------------------------------

    def _rolls(self, proposal: Fragment, term: int) -> bool:
        if proposal.end > self.fragment.end + self.delta:
            return proposal.is_empty or not term
        return proposal.end == self.fragment.end and proposal.is_empty

    def _rewind(self, proposal: Fragment, registers: LabelSet, primary: bool) -> None:
        if proposal != self.fragment or registers != self.registers:
            keep_to = min(proposal.end, self.fragment.end)
            self._roll(proposal, registers, primary, keep_to=keep_to)

    def _roll(
        self, proposal: Fragment, registers: LabelSet, primary: bool, *, keep_to: int
    ) -> None:
        """Complete ``[begin, keep_to)`` and become empty at the proposal's end."""
        empty = Fragment(self.journal, proposal.end, proposal.end, codec=proposal.codec)
        if self.fragment.is_empty and self.fragment.begin == empty.begin:
            self._restart(empty, registers)
            return
        # First what can fail: the spool must not have changed if there is no room for a file.
        file = self._new_file(empty.begin) if self.is_durable else None
        completed = self._complete(keep_to, registers, primary)
        self._become(empty, registers, file)
        self._changed()
        if completed is not None:
            self._observer.on_complete(completed)

    def _restart(self, empty: Fragment, registers: LabelSet) -> None:
        """An empty spool takes another codec or other registers, and stays in its file."""
        if registers != self.registers and self.is_durable:
            self._open_file()
        changed = (empty, registers) != (self.fragment, self.registers)
        self._become(empty, registers, self._file)
        if changed and self._file is not None:
            self._changed()

    def _complete(self, keep_to: int, registers: LabelSet, primary: bool) -> CompletedSpool | None:
        """Leave the current file behind, with ``[begin, keep_to)`` of it to be kept."""
        file, record = self._file, self._record()
        if file is None:
            return None
        unsynced = None if self._group.is_durable else record
        if keep_to < self.fragment.end:
            unsynced = record = self._cut(record, keep_to, registers, file)
        completed = None
        if not record.fragment.is_empty:
            content = SpoolContent(self.fragment.begin, file)
            completed = CompletedSpool(record, content, primary=primary)
        self._predecessors.append(_Predecessor(file, unsynced, completed))
        return completed

    def _cut(
        self, record: CommitRecord, end: int, registers: LabelSet, file: SpoolFile
    ) -> CommitRecord:
        content = SpoolContent(self.fragment.begin, file)
        kept = replace(self.fragment, end=end, sum=content.sum_to(end))
        return replace(record, fragment=kept, registers=registers)

    def _become(self, empty: Fragment, registers: LabelSet, file: SpoolFile | None) -> None:
        self.fragment, self.registers, self._file = empty, registers, file
        self.delta, self.first_append_time = 0, 0.0
        self._committed_sum = _new_sum()
        self._sum = _new_sum()

    def _agree_to(self, term: int) -> None:
        if term in (0, self.agreed_term):
            return
        if self.is_durable:
            self._open_file()
        self.agreed_term = term
        self._changed()

    def _commit(self, proposal: Fragment, registers: LabelSet, term: int, now: float) -> None:
        self.fragment, self.registers, self.delta = proposal, registers, 0
        self._committed_sum = self._sum.copy()
        self.first_append_time = self.first_append_time or now
        # A commit that names no term was made under the one agreed to at the last sync.
        self.agreed_term = self.term = term or self.agreed_term
        self._changed()
        self._observer.on_commit(proposal)

    # -- its files -------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self.is_durable:
            self._group.changes += 1

    def _check_usable(self) -> None:
        if (failure := self._group.failure) is not None:
            raise self._broken(failure) from failure

    def _on_sync_failed(self, failure: Exception) -> None:
        self._observer.on_broken(self._broken(failure))

    def _broken(self, failure: Exception) -> SpoolBroken:
        path = self._file.path if self._file else self.journal
        return SpoolBroken(self.journal, path, str(failure))

    def _open_file(self) -> SpoolFile:
        if self._file is None:
            self._file = self._new_file(self.fragment.begin)
        return self._file

    def _new_file(self, begin: int) -> SpoolFile:
        try:
            return self._files.create(self.journal, begin)
        except OSError as error:
            raise self._write_failed(error) from error

    def _write_failed(self, error: OSError) -> SpoolWriteFailed:
        offset = self.fragment.end + self.delta
        return SpoolWriteFailed(self.journal, offset, error.strerror or str(error))

    def _record(self) -> CommitRecord:
        return CommitRecord(
            self.fragment,
            self.registers,
            self.create_revision,
            self.term,
            self.agreed_term,
            self.first_append_time,
            acknowledged_end=self.acknowledged_end,
        )

    def _begin_sync(self) -> Sync:
        predecessors, self._predecessors = self._predecessors, []
        return _SpoolSync(self._open_file(), self._record(), predecessors)


class _Predecessor:
    """A file that a roll has left behind, while the one that follows it is not durable yet."""

    __slots__ = ("completed", "file", "unsynced")

    def __init__(
        self, file: SpoolFile, unsynced: CommitRecord | None, completed: CompletedSpool | None
    ) -> None:
        self.file = file
        self.unsynced = unsynced
        self.completed = completed
        """None if nothing of it is kept."""

    def settle(self) -> None:
        """Make durable where it ends, so that what follows never stands on what is not there.

        After a rewind that is what matters most: the bytes given up must not come back.
        """
        if self.unsynced is not None:
            self.file.sync(self.unsynced)

    def seal(self) -> None:
        """Say in the file that a later one is durable."""
        if self.completed is not None:
            self.file.sync(replace(self.completed.record, is_sealed=True))
            self.file.release_space(self.completed.fragment.length)


class _SpoolSync(Sync):
    """Makes a spool durable, in an order in which a stop at any point loses nothing.

    1. Where the files left behind end.
    2. The current file: with it the registers have a new home.
    3. The seal of those left behind. Recovery takes an unsealed file for the last one if what
       follows it does not verify; behind a sealed one it knows that something was lost.
    """

    def __init__(
        self, file: SpoolFile, record: CommitRecord, predecessors: list[_Predecessor]
    ) -> None:
        self._file, self._record, self._predecessors = file, record, predecessors

    def perform(self) -> None:
        for predecessor in self._predecessors:
            predecessor.settle()  # Step 1.
        self._file.sync(self._record)  # Step 2.
        for predecessor in self._predecessors:
            predecessor.seal()  # Step 3.

    def on_durable(self) -> None:
        for predecessor in self._predecessors:
            if predecessor.completed is not None:
                predecessor.completed.on_sealed()
            else:
                predecessor.file.remove()


def _new_sum() -> hashlib._Hash:
    return hashlib.sha1(usedforsecurity=False)
