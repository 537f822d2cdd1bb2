"""A world of brokers in which everything can go wrong, to drive the real machine and spools in.

Real are the append machine, the replica's rules and the spool. Modelled are what carries messages
(queues that can be cut), what keeps files (memory that forgets what was not synced), and the
keyspace (a list of states; each broker knows one of them, not always the last).

``Checker`` holds the world to its promises: an offset that was acknowledged or shown never has two
contents, and what was acknowledged is never lost.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha1
from itertools import count
from typing import Any, cast

from windrow.journal.broker import append_events as on
from windrow.journal.broker.append_machine import AppendMachine
from windrow.journal.broker.group import Conditions, Member
from windrow.journal.broker.head import Head, Terms
from windrow.journal.broker.replica import Replica
from windrow.journal.broker.sync import Answer
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.content import CompletedSpool, SpoolContent, SpoolObserver
from windrow.journal.fragments.slot import CommitRecord
from windrow.journal.fragments.spool import Spool
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.spec import Codec, FragmentSpec, JournalSpec, ProcessId, Route
from windrow.journal.status import Status

JOURNAL = "a/journal"
CREATED = 1


class Stopped(Exception):
    """The power went in the middle of a sync."""


class Broken(AssertionError):
    """A promise was broken."""


# -- files -----------------------------------------------------------------------------------------


class ModelFile:
    """A file that forgets what was written since its last sync."""

    is_durable = True

    def __init__(self, files: ModelFiles, begin: int) -> None:
        self.files, self.begin, self.path = files, begin, f"(file at {begin})"
        self.content = bytearray()
        self.durable: tuple[CommitRecord, bytes] | None = None
        self.is_gone = self.is_quarantined = False

    def write(self, content: bytes, position: int) -> None:
        self.content[position:] = content

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.content[position : position + size])

    def sync(self, record: CommitRecord) -> None:
        self.files.on_sync()
        self.durable = (record, bytes(self.content))

    def release_space(self, length: int) -> None:
        pass

    def remove(self) -> None:
        self.is_gone = True

    def quarantine(self) -> None:
        self.is_quarantined = True


class ModelFiles:
    """The disk of one broker."""

    is_durable = True
    executor = None

    def __init__(self) -> None:
        self.files: list[ModelFile] = []
        self.syncs_left: int | None = None

    def create(self, journal: str, begin: int) -> ModelFile:
        self.files.append(ModelFile(self, begin))
        return self.files[-1]

    def on_sync(self) -> None:
        if self.syncs_left is not None:
            if self.syncs_left == 0:
                raise Stopped
            self.syncs_left -= 1

    def verified(self) -> Iterator[tuple[ModelFile, CommitRecord]]:
        for file in self.files:
            if file.durable is not None and not file.is_gone and not file.is_quarantined:
                yield file, file.durable[0]

    def restart(self) -> None:
        """Forget what was not synced."""
        self.syncs_left = None
        for file in self.files:
            if file.durable is not None:
                file.content = bytearray(file.durable[1])
        self.files = [file for file in self.files if file.durable is not None]


@dataclass
class Source:
    """What the disk gives back to a replica that starts."""

    files: ModelFiles
    completed: list[CompletedSpool] = field(default_factory=list)

    def open(self, observer: SpoolObserver) -> Spool:
        verified = list(self.files.verified())
        if not verified or verified[-1][1].is_sealed:
            return Spool(JOURNAL, cast(Any, self.files), observer, create_revision=CREATED)
        *earlier, (file, record) = verified
        for old, old_record in earlier:
            content = SpoolContent(old_record.fragment.begin, cast(Any, old))
            if not old_record.fragment.is_empty:
                self.completed.append(CompletedSpool(old_record, content, primary=False))
        content = SpoolContent(record.fragment.begin, cast(Any, file))
        return Spool.resumed(
            record, content, content.hash_to(record.fragment.end), cast(Any, self.files), observer
        )


def flush(spool: Spool) -> None:
    """What ``Spool.flush`` does, without an event loop."""
    if not spool.is_flushed:
        covered, sync = spool._group.changes, spool._begin_sync()
        sync.perform()
        spool._group.durable_changes = covered
        sync.on_durable()


# -- what is promised ------------------------------------------------------------------------------


class Checker:
    """Remembers every byte that anybody was told of."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self.acknowledged_end = 0
        self.acknowledged: list[tuple[int, bytes]] = []

    def on_bytes(self, begin: int, content: bytes, what: str) -> None:
        for offset, byte in enumerate(content, start=begin):
            if self.known.setdefault(offset, byte) != byte:
                raise Broken(f"offset {offset} was {self.known[offset]}, and {what} says {byte}")

    def on_acknowledged(self, begin: int, content: bytes) -> None:
        for other, there in self.acknowledged:
            if content and begin < other + len(there) and other < begin + len(content):
                raise Broken(f"{begin} was acknowledged to two appends")
        self.on_bytes(begin, content, "an acknowledged append")
        self.acknowledged.append((begin, content))
        self.acknowledged_end = max(self.acknowledged_end, begin + len(content))

    def on_synced(self, world: World, end: int, registers: LabelSet) -> None:
        """A primary is about to append: it must know of all that was acknowledged."""
        if end < self.acknowledged_end:
            raise Broken(f"appends go on at {end}, and {self.acknowledged_end} was acknowledged")
        if self.acknowledged_end and registers.value("last") is None:
            raise Broken("the registers are lost")
        held = world.bytes_on_disks()
        for begin, content in self.acknowledged:
            for offset, byte in enumerate(content, start=begin):
                if byte not in held.get(offset, ()):
                    raise Broken(f"nobody has the acknowledged byte at {offset} any more")


class ModelIndex:
    """Tells the checker of all that readers of one broker can see."""

    is_listed = True

    def __init__(self, checker: Checker, name: str) -> None:
        self.checker, self.name = checker, name
        self.end_offset = self.known_end = 0

    def add_local(self, fragment: Fragment, content: SpoolContent) -> None:
        shown = content.read_at(fragment.begin, fragment.length)
        self.checker.on_bytes(fragment.begin, shown, f"a reader of {self.name}")
        self.end_offset = max(self.end_offset, fragment.end)

    def know_end(self, end: int) -> None:
        self.known_end = max(self.known_end, end)


# -- brokers and what is between them --------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """The keyspace at one revision."""

    revision: int
    route: Route
    assigned: Route
    """What the assignments hold as their value."""
    assigned_revision: int
    head: Head | None


@dataclass
class Link:
    """One Replicate stream."""

    peer: Broker
    requests: deque[Any] = field(default_factory=deque)
    unflushed: list[Answer] = field(default_factory=list)
    answers: deque[Answer] = field(default_factory=deque)
    is_open: bool = False
    """Whether the peer has given it its spool."""
    is_broken: bool = False
    is_closed: bool = False
    epoch: int = 0


@dataclass
class Session:
    """A pipeline."""

    spool: Spool
    route: Route
    term: int
    head_revision: int
    links: list[Link]
    readers: deque[int] = field(default_factory=deque)
    is_closing: bool = False
    is_synced: bool = False

    @property
    def is_broken(self) -> bool:
        return any(link.is_broken for link in self.links)


@dataclass
class Append:
    """A machine on its way, and what it waits for."""

    number: int
    machine: AppendMachine
    content: bytes
    command: on.Command
    session: Session | None = None
    owns: bool = False
    is_copying: bool = False
    end: int = 0
    known: State | None = None
    """The keyspace as of its last resolution."""

    @property
    def resolution(self) -> State:
        assert self.known is not None
        return self.known


class Broker:
    """One process: up or down, with a disk that stays."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.id = world, ProcessId("zone", f"broker-{name}")
        self.files = ModelFiles()
        self.epoch = 0
        self.start()

    def start(self) -> None:
        self.is_up = True
        self.epoch += 1
        self.files.restart()
        self.known = self.world.states[-1]
        self.appends: list[Append] = []
        self.session: Session | None = None
        self.is_session_taken = False
        self.spool_owner: object | None = None
        source = Source(self.files)
        self.index = ModelIndex(self.world.checker, str(self.id))
        self.replica = Replica(
            JOURNAL,
            member=self.id,
            source=cast(Any, source),
            index=cast(Any, self.index),
            complete=self._on_completed,
            is_durable=self.world.is_durable,
        )
        self.spool = self.replica._spool
        for completed in source.completed:
            self.index.add_local(completed.fragment, completed.content)
            self._on_completed(completed)

    def _on_completed(self, spool: CompletedSpool) -> None:
        fragment = spool.fragment
        content = spool.read_at(fragment.begin, fragment.length)
        self.world.checker.on_bytes(fragment.begin, content, f"an upload of {self.id}")
        for offset, byte in enumerate(content, start=fragment.begin):
            self.world.stored.setdefault(offset, set()).add(byte)

    def stop(self) -> None:
        self.is_up = False


class World:
    """All of it."""

    def __init__(self, names: str = "abc", *, is_durable: bool = True, replication: int = 2):
        self.is_durable, self.replication = is_durable, replication
        self.checker = Checker()
        self.stored: dict[int, set[int]] = {}
        self.numbers = count(1)
        first = Route((), -1)
        self.states = [State(CREATED, first, first, CREATED, None)]
        self.links: list[Link] = []
        self.refused_copies = 0
        self.brokers = [Broker(self, name) for name in names]
        fragment = FragmentSpec(8, Codec.NONE, refresh_interval=60.0)
        self.spec = JournalSpec(JOURNAL, replication, fragment=fragment)

    # -- what can happen -------------------------------------------------------------------------

    def set_route(self, *members: Broker) -> None:
        """Assign the journal to these brokers; the first is its primary."""
        ids = tuple(sorted(member.id for member in members))
        route = Route(ids, ids.index(members[0].id))
        now = self.states[-1]
        revision = now.revision + 1
        self.states.append(replace(now, revision=revision, route=route, assigned_revision=revision))

    def begin(self, broker: Broker, content: bytes | None = None) -> Append:
        number = next(self.numbers)
        content = bytes([number % 251 + 1] * (1 + number % 5)) if content is None else content
        union = LabelSet.of({"last": str(number)})
        conditions = Conditions(journal=JOURNAL, union_registers=union)
        machine = AppendMachine(conditions, member=str(broker.id), is_durable=self.is_durable)
        append = Append(number, machine, content, machine.start())
        broker.appends.append(append)
        return append

    def crash(self, broker: Broker, in_sync_after: int | None = None) -> None:
        """Stop a broker; perhaps in the middle of a sync that was under way."""
        if in_sync_after is not None:
            broker.files.syncs_left = in_sync_after
            with contextlib.suppress(Stopped):
                flush(broker.spool)
        broker.stop()
        for link in self.links:
            if link.peer is broker:
                link.is_broken = True
        if broker.session is not None:
            for link in broker.session.links:
                self.cut(link)
        for append in broker.appends:
            if append.session is not None:
                for link in append.session.links:
                    self.cut(link)

    def cut(self, link: Link) -> None:
        """End a stream; what the peer has not read yet is lost."""
        link.is_broken = True
        link.requests.clear()
        self._release(link)

    def _release(self, link: Link) -> None:
        peer = link.peer
        if link.is_open and peer.is_up and peer.spool_owner is link:
            peer.spool.rollback()
            peer.spool_owner = None
        link.is_open = False

    # -- a replica's side ------------------------------------------------------------------------

    def deliver(self, link: Link) -> bool:
        """Let the peer take one message; its answer waits for a flush."""
        peer = link.peer
        if link.is_broken or not peer.is_up or link.epoch != peer.epoch:
            link.is_broken = True
            return False
        if not link.requests:
            if link.is_closed and not link.unflushed:
                self._release(link)
            return False
        if not link.is_open and not self._open(link):
            return False
        if link.requests:
            self._apply(link, link.requests.popleft())
        return True

    def _open(self, link: Link) -> bool:
        peer, (kind, _, header) = link.peer, link.requests[0]
        assert kind == "sync"
        peer.known = max(peer.known, header, key=lambda state: state.revision)
        if not peer.known.route.equivalent(header.route):
            known = peer.known
            link.requests.clear()
            answer = Answer(
                str(peer.id), Status.WRONG_ROUTE, route=known.route, revision=known.revision
            )
            link.answers.append(answer)
            return False
        if peer.spool_owner is not None:
            return False
        peer.spool_owner, link.is_open = link, True
        peer.replica.admit(peer.spool, peer.known.head if self.is_durable else None)
        return True

    def _apply(self, link: Link, request: tuple[str, Any, Any]) -> None:
        peer, (kind, command, acknowledged_end) = link.peer, request
        spool = peer.spool
        if kind in ("sync", "began"):
            status = peer.replica.adopt(
                spool,
                command.proposal,
                command.registers,
                term=command.term if self.is_durable else 0,
                rewind=command.rewind,
            )
            if kind == "sync":
                self._answer(link, status)
            return
        peer.replica.acknowledge(acknowledged_end)
        if kind == "content":
            spool.apply_content(command.content, command.delta)
            return
        proposal, registers, is_acknowledged = command
        status = spool.propose(proposal, registers, primary=False)
        if is_acknowledged:
            self._answer(link, status)
        elif status is not Status.OK:
            self.cut(link)

    def _answer(self, link: Link, status: Status) -> None:
        spool = link.peer.spool
        terms = Terms(spool.term, spool.agreed_term)
        link.unflushed.append(
            Answer(
                str(link.peer.id),
                status,
                spool.fragment,
                spool.registers,
                terms=terms,
                acknowledged_end=spool.acknowledged_end,
            )
        )

    def acknowledge(self, link: Link) -> None:
        """Let the peer flush, and answer what waited for it."""
        if link.peer.is_up and not link.is_broken and link.unflushed:
            flush(link.peer.spool)
            link.answers.extend(link.unflushed)
            link.unflushed.clear()

    # -- a primary's side ------------------------------------------------------------------------

    def step(self, broker: Broker, append: Append, *, loses_answer: bool = False) -> bool:
        """Let one append take its next step, if it need not wait."""
        if append not in broker.appends:
            return False
        event = self._perform(broker, append, loses_answer)
        if event is None:
            return False
        append.command = append.machine.handle(event)
        session = append.session
        if append.machine.is_synced and session is not None and not session.is_synced:
            session.is_synced = True
            self.checker.on_synced(self, session.spool.fragment.end, session.spool.registers)
            broker.replica.acknowledge(session.spool.fragment.end)
        if append.machine.is_over:
            self._finish(broker, append)
        return True

    def _finish(self, broker: Broker, append: Append) -> None:
        broker.appends.remove(append)
        command = append.command
        if append.owns:
            session = append.session
            shuts_down = isinstance(command, on.Finish) and command.shuts_down
            if session is not None and (shuts_down or not session.is_synced):
                self._close(broker, session)
                session = None
            self._hand_on(broker, append, session)
        if isinstance(command, on.Finish) and not command.error and command.verdicts[0].commits:
            commit = command.verdicts[0].commit
            assert commit is not None
            self.checker.on_acknowledged(commit.begin, append.content)

    def _hand_on(self, broker: Broker, append: Append, session: Session | None) -> None:
        broker.session, broker.is_session_taken = session, False
        append.owns = False

    def _close(self, broker: Broker, session: Session) -> None:
        session.is_closing = True
        session.spool.rollback()
        for link in session.links:
            link.is_closed = True
        self._free_spool(broker, session)

    def _free_spool(self, broker: Broker, session: Session) -> None:
        if session.is_closing and not session.readers and broker.spool_owner is session:
            broker.spool_owner = None

    def _send(self, session: Session, request: tuple[str, Any, Any]) -> None:
        for link in session.links:
            if not link.is_broken:
                link.requests.append(request)

    def _perform(self, broker: Broker, append: Append, loses_answer: bool) -> on.Event | None:
        command, session, replica = append.command, append.session, broker.replica
        match command:
            case on.Resolve():
                return self._resolve(broker, append, command)
            case on.AcquirePipeline():
                if broker.is_session_taken:
                    return None
                broker.is_session_taken, append.owns = True, True
                append.session = broker.session
                is_invalidated = not broker.known.route.equivalent(append.resolution.route)
                return on.PipelineAcquired(self._state(append.session), is_invalidated)
            case on.BuildPipeline():
                return self._build(broker, append)
            case on.SendSync():
                assert session is not None
                replica.adopt(
                    session.spool,
                    command.proposal,
                    command.registers,
                    term=command.term,
                    rewind=command.rewind,
                    primary=True,
                )
                self._send(session, ("sync", command, append.resolution))
                flush(session.spool)
                return on.SyncSent(self._spool_state(session.spool))
            case on.RecvSync():
                assert session is not None
                return self._receive_sync(session)
            case on.BackFill():
                assert session is not None
                return self._back_fill(broker, append, session, command)
            case on.PutHead():
                return self._transact(broker, append.resolution, command.head, None, loses_answer)
            case on.PutAssignments():
                known = append.resolution
                return self._transact(broker, known, command.head, known.route, loses_answer)
            case on.AwaitIndex():
                return on.IndexReady(-1, max(broker.index.end_offset, broker.index.known_end))
            case on.Roll():
                assert session is not None
                return self._roll(broker, session, command)
            case on.TakeContent():
                member = Member(append.machine.conditions, append.content, 1)
                return on.GroupTaken((member,))
            case on.SendContent():
                assert session is not None
                session.spool.apply_content(command.content, command.delta)
                self._send(session, ("content", command, replica.acknowledged_end))
                return self._sent(session)
            case on.ProposeCommit():
                assert session is not None
                return self._propose(
                    broker, append, session, session.spool.next(), command.registers
                )
            case on.ProposeRollback():
                assert session is not None
                spool = session.spool
                return self._propose(broker, append, session, spool.fragment, spool.registers)
            case on.ReadAcks():
                assert session is not None
                return self._read_acks(broker, append, session, command)
        raise AssertionError(command)

    def _resolve(self, broker: Broker, append: Append, command: on.Resolve) -> on.Event | None:
        if command.shuts_down and append.session is not None:
            self._close(broker, append.session)
            append.session = None
            append.command = replace(command, shuts_down=False)
        if command.gives_back:
            self._hand_on(broker, append, append.session)
            append.session = None
            append.command = replace(command, gives_back=False)
        wanted = max(command.min_revision, broker.replica.head_revision if append.owns else 0)
        if broker.known.revision < wanted:
            later = [state for state in self.states if state.revision >= wanted]
            if not later:
                return None
            broker.known = later[0]
        append.known = known = broker.known
        is_primary = known.route.primary_id == broker.id
        return on.Resolved(
            status=Status.OK if known.route.members else Status.INSUFFICIENT_JOURNAL_BROKERS,
            revision=known.revision,
            route=known.route,
            is_local_primary=is_primary,
            desired_replicas=self.replication,
            spec=self.spec,
            create_revision=CREATED,
            is_assigned=known.assigned.equivalent(known.route),
            head=known.head,
        )

    def _build(self, broker: Broker, append: Append) -> on.Event | None:
        if append.session is not None:
            self._close(broker, append.session)
            append.session = None
        if append.resolution.revision < broker.replica.head_revision:
            return on.Invalidated()
        if broker.spool_owner is not None:
            return None
        head, spool = append.resolution.head, broker.spool
        broker.replica.admit(spool, head)
        by_id = {one.id: one for one in self.brokers}
        links = [
            Link(by_id[member], epoch=by_id[member].epoch)
            for member in append.resolution.route.members
            if member != broker.id
        ]
        self.links = [link for link in self.links if not link.is_broken] + links
        append.session = Session(
            spool,
            append.resolution.route,
            broker.replica.choose_term(head) if self.is_durable else 0,
            head.mod_revision if head else 0,
            links,
        )
        broker.spool_owner = append.session
        state = self._state(append.session)
        assert state is not None
        return on.PipelineBuilt(state)

    def _receive_sync(self, session: Session) -> on.Event | None:
        if all(link.answers for link in session.links):
            return on.SyncReceived(tuple(link.answers.popleft() for link in session.links))
        return on.PeersFailed("cut") if session.is_broken else None

    def _back_fill(
        self, broker: Broker, append: Append, session: Session, command: on.BackFill
    ) -> on.Event | None:
        """The donor's spool is held by this session, so its bytes can be taken as they are."""
        takers = [link for link in session.links if str(link.peer.id) in command.copy.to]
        if not append.is_copying:
            append.is_copying = True
            members = {str(link.peer.id): link for link in session.links}
            donor = members.get(command.copy.donor)
            if donor is not None and donor.is_broken:
                return on.PeersFailed("cut")
            spool = donor.peer.spool if donor else session.spool
            length = command.copy.end - command.copy.begin
            content = spool.read_at(command.copy.begin, length)
            self._copy(broker, session, command, content, takers)
        if all(link.answers for link in takers):
            append.is_copying = False
            answers = [link.answers.popleft() for link in takers]
            if any(answer.status is not Status.OK for answer in answers):
                self.refused_copies += 1
                return on.PeersFailed("refused")
            return on.BackFilled(self._spool_state(session.spool))
        return on.PeersFailed("cut") if session.is_broken else None

    def _copy(
        self,
        broker: Broker,
        session: Session,
        command: on.BackFill,
        content: bytes,
        takers: list[Link],
    ) -> None:
        digest = sha1(content, usedforsecurity=False).digest()
        whole = replace(command.empty, end=command.copy.end, sum=digest)
        begin = on.SendSync(command.empty, EMPTY, False, term=session.term)
        commit = on.SendSync(whole, command.copy.registers, False, term=session.term)
        sent = on.SendContent(content, 0)
        for link in takers:
            if not link.is_broken:
                link.requests += [("began", begin, 0), ("content", sent, 0), ("sync", commit, 0)]
        if str(broker.id) in command.copy.to:
            spool, adopt = session.spool, broker.replica.adopt
            adopt(spool, command.empty, EMPTY, term=session.term, primary=True)
            spool.apply_content(content, 0)
            adopt(spool, whole, command.copy.registers, term=session.term, primary=True)
            flush(spool)

    def _transact(
        self,
        broker: Broker,
        known: State,
        head: Head | None,
        route: Route | None,
        loses_answer: bool,
    ) -> on.Event:
        now = self.states[-1]
        is_current = now.assigned_revision == known.assigned_revision
        if head is not None:
            now_at = now.head.mod_revision if now.head else 0
            is_current = is_current and now_at == (known.head.mod_revision if known.head else 0)
        revision = now.revision
        if is_current:
            revision += 1
            changed = replace(now, revision=revision)
            if head is not None:
                changed = replace(changed, head=head.written_at(revision))
            if route is not None:
                changed = replace(changed, assigned=route, assigned_revision=revision)
            self.states.append(changed)
        if head is not None and is_current and not loses_answer:
            broker.replica.on_head_decided(revision)
        if loses_answer:
            if head is not None:
                broker.replica.on_head_undecided(
                    known.head.mod_revision if known.head else 0, head.term
                )
            return on.TransactionUnknown("no answer")
        return on.Transacted(is_current, revision)

    def _roll(self, broker: Broker, session: Session, command: on.Roll) -> on.Event | None:
        if session.readers:
            return None
        if broker.replica.acknowledged_end < session.spool.fragment.end:
            return on.SendFailed("not acknowledged")
        spool = session.spool
        registers = spool.registers
        spool.propose(command.proposal, registers, primary=True)
        proposal = (command.proposal, registers, False)
        self._send(session, ("proposal", proposal, broker.replica.acknowledged_end))
        sent = self._sent(session)
        return on.Rolled(self._spool_state(spool)) if isinstance(sent, on.Sent) else sent

    def _propose(
        self,
        broker: Broker,
        append: Append,
        session: Session,
        proposal: Fragment,
        registers: LabelSet,
    ) -> on.Event:
        status = session.spool.propose(proposal, registers, primary=True)
        assert status is Status.OK
        append.end = session.spool.fragment.end
        request = (proposal, registers, True)
        self._send(session, ("proposal", request, broker.replica.acknowledged_end))
        return self._sent(session)

    def _sent(self, session: Session) -> on.Event:
        return on.SendFailed("cut") if session.is_broken else on.Sent()

    def _read_acks(
        self, broker: Broker, append: Append, session: Session, command: on.ReadAcks
    ) -> on.Event | None:
        if append.owns:
            session.readers.append(append.number)
            if command.closes:
                self._close(broker, session)
            self._hand_on(broker, append, None if command.closes else session)
        if session.readers[0] != append.number:
            return None
        if not all(link.answers for link in session.links):
            if not session.is_broken:
                return None
            session.readers.popleft()
            self._free_spool(broker, session)
            return on.PeersFailed("cut")
        answers = [link.answers.popleft() for link in session.links]
        session.readers.popleft()
        self._free_spool(broker, session)
        if any(answer.status is not Status.OK for answer in answers):
            for link in session.links:
                self.cut(link)
            return on.PeersFailed("refused")
        flush(session.spool)
        broker.replica.acknowledge(append.end)
        return on.Acknowledged()

    def _state(self, session: Session | None) -> on.PipelineState | None:
        if session is None:
            return None
        spool = self._spool_state(session.spool)
        return on.PipelineState(
            session.route, session.term, session.head_revision, spool, session.is_broken
        )

    def _spool_state(self, spool: Spool) -> on.SpoolState:
        terms = Terms(spool.term, spool.agreed_term)
        return on.SpoolState(
            spool.fragment, spool.registers, terms, acknowledged_end=spool.acknowledged_end
        )

    # -- looking at it, and letting it run -------------------------------------------------------

    def bytes_on_disks(self) -> dict[int, set[int]]:
        """Every byte that a store or a spool still has, quarantine not counted."""
        held = {offset: set(values) for offset, values in self.stored.items()}
        for broker in self.brokers:
            for file, record in broker.files.verified():
                assert file.durable is not None
                length = record.fragment.length
                for offset, byte in enumerate(file.durable[1][:length], record.fragment.begin):
                    held.setdefault(offset, set()).add(byte)
        return held

    def settle_links(self) -> bool:
        """Let every message arrive once."""
        moved = False
        for link in list(self.links):
            moved |= self.deliver(link)
            self.acknowledge(link)
        return moved

    def settle(self, rounds: int = 400) -> None:
        """Let everything that can go on do so."""
        for _ in range(rounds):
            moved = self.settle_links()
            for broker in self.brokers:
                if broker.is_up:
                    for append in list(broker.appends):
                        moved |= self.step(broker, append)
            waits = (link.answers or (link.is_open and link.requests) for link in self.links)
            if not moved and not any(waits):
                return
