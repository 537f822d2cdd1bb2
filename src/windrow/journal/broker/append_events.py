"""What can happen to an append, and what it can ask to be done. Frozen values, no behaviour.

An event answers the command before it. Facts of the keyspace, the pipeline and the index come as
values inside events, so that the machine never reads the world by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from windrow.journal.broker.group import Member, Verdict
from windrow.journal.broker.head import NO_TERMS, Head, Terms
from windrow.journal.broker.sync import Answer, Copy
from windrow.journal.fragment import Fragment
from windrow.journal.labels import LabelSet
from windrow.journal.spec import JournalSpec, Route, SuspendLevel
from windrow.journal.status import Status


class AppendState(Enum):
    """Where an append is. ``RESOLVE`` is the first; the last three are terminal."""

    RESOLVE = auto()
    ACQUIRE_PIPELINE = auto()
    START_PIPELINE = auto()
    SEND_PIPELINE_SYNC = auto()
    RECV_PIPELINE_SYNC = auto()
    BACK_FILL = auto()
    DECIDE_HEAD = auto()
    UPDATE_ASSIGNMENTS = auto()
    AWAIT_DESIRED_REPLICAS = auto()
    VALIDATE_PRECONDITIONS = auto()
    UPDATE_SUSPEND = auto()
    STREAM_CONTENT = auto()
    READ_ACKNOWLEDGEMENTS = auto()
    FINISHED = auto()
    ERROR = auto()
    PROXY = auto()


TERMINAL = frozenset({AppendState.FINISHED, AppendState.ERROR, AppendState.PROXY})


# -- facts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpoolState:
    """What the primary's own spool holds."""

    fragment: Fragment
    registers: LabelSet
    terms: Terms = NO_TERMS
    first_append_time: float = 0.0
    acknowledged_end: int = 0
    """Everything below it is known to be acknowledged."""


@dataclass(frozen=True, slots=True)
class PipelineState:
    """A pipeline that was built by this append or an earlier one."""

    route: Route
    term: int
    """Zero if spools are kept in memory."""
    head_revision: int
    """Of the head that it was synchronised by."""
    spool: SpoolState
    is_broken: bool = False
    """Whether a peer failed, so that it has to be built anew."""


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resolved:
    """The journal was resolved at ``revision``."""

    status: Status
    revision: int
    route: Route = Route.NONE
    is_local_primary: bool = False
    desired_replicas: int = 0
    spec: JournalSpec | None = None
    create_revision: int = 0
    is_assigned: bool = False
    """Whether every assignment already holds the route as its value."""
    head: Head | None = None
    is_same_replica: bool = True
    """Whether a pipeline that is held belongs to the replica of this resolution."""


@dataclass(frozen=True, slots=True)
class ResolveFailed:
    """The journal cannot be resolved as asked."""

    error: str


@dataclass(frozen=True, slots=True)
class PipelineAcquired:
    """The pipeline is ours; None if nobody has built one, or the last was shut down."""

    pipeline: PipelineState | None
    is_invalidated: bool = False
    """The resolution was invalidated while waiting; the pipeline is held all the same."""


@dataclass(frozen=True, slots=True)
class PipelineBuilt:
    """The spool is ours, and a Replicate stream to each peer is open."""

    pipeline: PipelineState


@dataclass(frozen=True, slots=True)
class Invalidated:
    """The resolution is no longer true, before what was waited for came about."""


@dataclass(frozen=True, slots=True)
class ClientGone:
    """The client cancelled, or its deadline passed."""


@dataclass(frozen=True, slots=True)
class SyncSent:
    """The synchronising proposal is on its way to all peers, and applied locally."""

    spool: SpoolState


@dataclass(frozen=True, slots=True)
class SyncReceived:
    """Every peer has answered the synchronising proposal."""

    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class BackFilled:
    """What was to be copied is on the disks of all who lacked it."""

    spool: SpoolState


@dataclass(frozen=True, slots=True)
class PeersFailed:
    """A peer's stream broke or timed out, or the local spool failed."""

    error: str


@dataclass(frozen=True, slots=True)
class Transacted:
    """A transaction was answered; ``revision`` is one that the mirror can wait for."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, slots=True)
class TransactionUnknown:
    """Nobody knows what became of a transaction."""

    error: str


@dataclass(frozen=True, slots=True)
class IndexReady:
    """The first remote listing is known, and the store's health."""

    begin: int
    end: int
    is_flushed: bool = True
    """Whether the last fragment is persisted, and older than the flush interval."""
    store_error: str = ""
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class Rolled:
    """The roll was sent, everything before it having been acknowledged."""

    spool: SpoolState


@dataclass(frozen=True, slots=True)
class GroupTaken:
    """These appends are committed together; our own is the first."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class ChunkReceived:
    """The client sent content; empty content marks the commit."""

    content: bytes


@dataclass(frozen=True, slots=True)
class ClientEnded:
    """The client closed its side."""


@dataclass(frozen=True, slots=True)
class ClientFailed:
    """The client's stream broke, or sent what is not allowed, or was too slow."""

    error: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Content or a proposal is on its way to all peers, and applied locally."""


@dataclass(frozen=True, slots=True)
class SendFailed:
    """It could not be sent to every peer, or not be applied locally."""

    error: str
    is_local: bool = False
    """Only our own spool refused it: the peers are in order, and the pipeline can be kept."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Every peer has acknowledged, and our own spool is flushed."""


Event = (
    Resolved
    | ResolveFailed
    | PipelineAcquired
    | PipelineBuilt
    | Invalidated
    | ClientGone
    | SyncSent
    | SyncReceived
    | BackFilled
    | PeersFailed
    | Transacted
    | TransactionUnknown
    | IndexReady
    | Rolled
    | GroupTaken
    | ChunkReceived
    | ClientEnded
    | ClientFailed
    | Sent
    | SendFailed
    | Acknowledged
)


# -- commands --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resolve:
    """Wait for the revision, then resolve."""

    min_revision: int = 0
    gives_back: bool = False
    """First give back the pipeline."""
    shuts_down: bool = False
    """First shut the pipeline down; its token is kept."""


@dataclass(frozen=True, slots=True)
class AcquirePipeline:
    """Wait for the pipeline's token."""

    gives_back: bool = False
    """First give back the one that is held: it is of a replica that is no more."""


@dataclass(frozen=True, slots=True)
class BuildPipeline:
    """Shut the old pipeline down in the background, wait for the spool, open the streams."""


@dataclass(frozen=True, slots=True)
class SendSync:
    """Propose to all, to be acknowledged; ``with_header`` says who we are and by which route."""

    proposal: Fragment
    registers: LabelSet
    with_header: bool
    term: int = 0
    rewind: bool = False
    acknowledged_end: int | None = None
    """Where everything is known to be acknowledged, if the proposal says so."""


@dataclass(frozen=True, slots=True)
class RecvSync:
    """Read the answers of all peers."""


@dataclass(frozen=True, slots=True)
class BackFill:
    """Copy what one member has to those who lack it, and wait until it is on their disks."""

    copy: Copy
    empty: Fragment
    """What those who lack it begin with."""


@dataclass(frozen=True, slots=True)
class PutHead:
    """Write the head, if it and the assignments are still what we resolved."""

    head: Head


@dataclass(frozen=True, slots=True)
class PutAssignments:
    """Write the route to all assignments if they are unchanged, and with it the head, if given."""

    head: Head | None


@dataclass(frozen=True, slots=True)
class PutSuspend:
    """Write the journal's suspension, if it and its assignments are unchanged."""

    level: SuspendLevel
    offset: int
    head: Head | None = None
    """The head that is left behind when no replica is."""


@dataclass(frozen=True, slots=True)
class AwaitIndex:
    """Wait for the first remote listing, and for the first store's health."""


@dataclass(frozen=True, slots=True)
class Roll:
    """Once everything sent so far is acknowledged, propose an empty fragment, unacknowledged."""

    proposal: Fragment


@dataclass(frozen=True, slots=True)
class TakeContent:
    """Get the content: a group if our own append is received as a whole, else its next chunk."""


@dataclass(frozen=True, slots=True)
class ReceiveChunk:
    """Wait for the client's next message."""


@dataclass(frozen=True, slots=True)
class SendContent:
    """Send content to all peers, then apply it locally."""

    content: bytes
    delta: int


@dataclass(frozen=True, slots=True)
class ProposeCommit:
    """Propose the fragment that the content makes, with these registers, to be acknowledged."""

    registers: LabelSet


@dataclass(frozen=True, slots=True)
class ProposeRollback:
    """Propose the current fragment again, to be acknowledged: it drops the content."""


@dataclass(frozen=True, slots=True)
class ReadAcks:
    """Give the pipeline back, wait for our turn, read one acknowledgement of each peer."""

    closes: bool = False
    """Close it and give back none, since a send has failed."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Answer every append of the group; a pipeline that is still held goes back."""

    verdicts: tuple[Verdict, ...]
    error: str = ""
    """Fails those that would have committed, and has no status."""
    shuts_down: bool = False
    store_error: str = ""
    is_unwritten: bool = False
    """Whether the error came before anybody could have committed anything."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Hand the call to the primary."""


Command = (
    Resolve
    | AcquirePipeline
    | BuildPipeline
    | SendSync
    | RecvSync
    | BackFill
    | PutHead
    | PutAssignments
    | PutSuspend
    | AwaitIndex
    | Roll
    | TakeContent
    | ReceiveChunk
    | SendContent
    | ProposeCommit
    | ProposeRollback
    | ReadAcks
    | Finish
    | Proxy
)
