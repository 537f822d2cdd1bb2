"""Values that tests of the append machine are told with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windrow.journal.broker import append_events as on
from windrow.journal.broker.append_machine import AppendMachine
from windrow.journal.broker.group import Conditions, Member
from windrow.journal.broker.head import Head, Terms
from windrow.journal.broker.sync import Answer
from windrow.journal.fragment import Fragment
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.spec import Codec, FragmentSpec, JournalSpec, ProcessId, Route
from windrow.journal.status import Status

JOURNAL = "a/journal"
A, B, C = (ProcessId("zone", f"broker-{name}") for name in "abc")
ROUTE = Route((A, B), 0)
SPEC = JournalSpec(JOURNAL, 2, fragment=FragmentSpec(1024, Codec.NONE, refresh_interval=60.0))
TERM, NEW_TERM = 77, 88
MEMBERS = (str(A), str(B))
HEAD = Head(5, TERM, MEMBERS, mod_revision=9)


def fragment(begin: int, end: int, fill: int = 1) -> Fragment:
    return Fragment(JOURNAL, begin, end, bytes([fill] * 20) if end > begin else bytes(20))


def spool(begin: int = 0, end: int = 0, registers: LabelSet = EMPTY, **more: Any) -> on.SpoolState:
    return on.SpoolState(fragment(begin, end), registers, **more)


def pipeline(state: on.SpoolState | None = None, **more: Any) -> on.PipelineState:
    values: dict[str, Any] = {"route": ROUTE, "term": 0, "head_revision": 0, **more}
    return on.PipelineState(spool=state or spool(), **values)


def resolved(**more: Any) -> on.Resolved:
    values: dict[str, Any] = {
        "status": Status.OK,
        "revision": 10,
        "route": ROUTE,
        "is_local_primary": True,
        "desired_replicas": 2,
        "spec": SPEC,
        "create_revision": 5,
        "is_assigned": True,
    }
    return on.Resolved(**{**values, **more})


def ok(state: on.SpoolState, member: ProcessId = B, terms: Terms = Terms()) -> Answer:  # noqa: B008
    return Answer(str(member), Status.OK, state.fragment, state.registers, terms=terms)


def mismatch(
    state: on.SpoolState,
    member: ProcessId = B,
    terms: Terms = Terms(),  # noqa: B008
) -> Answer:
    answer = ok(state, member, terms)
    return replace(answer, status=Status.PROPOSAL_MISMATCH)


def member_of(content: bytes = b"", **more: Any) -> Member:
    return Member(Conditions(journal=JOURNAL, **more), content, 2 if content else 1)


class Driver:
    """A machine and the last command it gave."""

    def __init__(self, *, is_durable: bool = False, **conditions: Any) -> None:
        self.machine = AppendMachine(
            Conditions(journal=JOURNAL, **conditions), member=str(A), is_durable=is_durable
        )
        self.command = self.machine.start()

    @property
    def state(self) -> on.AppendState:
        return self.machine.state

    def tell(self, *events: on.Event) -> on.Command:
        for event in events:
            self.command = self.machine.handle(event)
        return self.command

    def to_pipeline(self, held: on.PipelineState | None = None, **facts: Any) -> on.Command:
        return self.tell(resolved(**facts), on.PipelineAcquired(held))

    def to_sync(self, state: on.SpoolState | None = None, **facts: Any) -> on.Command:
        """A new pipeline whose synchronising proposal is sent."""
        state = state or spool()
        is_durable = self.machine._is_durable
        head = facts.get("head")
        built = pipeline(
            state,
            term=NEW_TERM if is_durable else 0,
            head_revision=head.mod_revision if head else 0,
        )
        self.to_pipeline(None, **facts)
        self.tell(on.PipelineBuilt(built))
        return self.tell(on.SyncSent(state))

    def to_index(self, state: on.SpoolState | None = None, **facts: Any) -> on.Command:
        """A pipeline that is already synchronised: waiting for the index."""
        return self.to_pipeline(pipeline(state or spool()), **facts)

    def to_stream(self, state: on.SpoolState | None = None, begin: int = -1) -> on.Command:
        state = state or spool()
        self.to_index(state)
        return self.tell(on.IndexReady(begin, state.fragment.end))
