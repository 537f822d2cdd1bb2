"""Requests to the wire and answers from it.

The one module of the client that knows protobuf; the others import it where they use it, so that
they can be imported where the extra is not installed.
"""

from __future__ import annotations

from collections.abc import Iterable

from windrow.errors import UsageError
from windrow.journal import messages
from windrow.journal.client.errors import InvalidAnswer
from windrow.journal.client.requests import (
    AppendRequest,
    Change,
    Committed,
    ListedFragment,
    ListedJournal,
    ReadRequest,
    Upsert,
)
from windrow.journal.errors import (
    JournalStatusError,
    OffsetNotYetAvailable,
    RegisterMismatch,
    status_error,
)
from windrow.journal.labels import LabelSelector
from windrow.journal.process import Header
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb


def append_request(request: AppendRequest, min_revision: int) -> pb.AppendRequest:
    """The first message of an append."""
    message = pb.AppendRequest(
        journal=request.journal,
        offset=request.offset,
        do_not_proxy=request.do_not_proxy,
        suspend=messages.suspend_control_to_pb(request.suspend),
        min_etcd_revision=min_revision,
    )
    if request.check is not None:
        message.check_registers.CopyFrom(messages.selector_to_pb(request.check))
    if request.union:
        message.union_registers.CopyFrom(messages.labels_to_pb(request.union))
    if request.subtract:
        message.subtract_registers.CopyFrom(messages.labels_to_pb(request.subtract))
    messages.check_append_request(message, True)
    return message


def append_content(content: bytes) -> pb.AppendRequest:
    """A piece of an append; without content, its commit mark."""
    return pb.AppendRequest(content=content)


def committed(request: AppendRequest, answer: pb.AppendResponse) -> Committed:
    """What an append was answered.

    Raises:
        JournalStatusError: The status was not OK.
        InvalidAnswer: It breaks the protocol.
    """
    with_status(request.journal, answer)
    try:
        messages.check_append_response(answer)
    except UsageError as error:
        raise InvalidAnswer("Append", str(error)) from error
    return Committed(
        messages.fragment_from_pb(answer.commit),
        messages.labels_from_pb(answer.registers),
        answer.header.etcd.revision,
    )


def with_status(
    journal: str,
    answer: pb.AppendResponse
    | pb.ReadResponse
    | pb.ListResponse
    | pb.ApplyResponse
    | pb.FragmentsResponse,
) -> None:
    """Let an answer pass if its status is OK."""
    if answer.status != pb.OK:
        raise _status_error(journal, answer)


def _status_error(journal: str, answer: object) -> JournalStatusError:
    status = messages.status_from_pb(answer.status)  # type: ignore[attr-defined]
    detail = ""
    if isinstance(answer, pb.AppendResponse):
        detail = answer.store_health_error
        if status is Status.REGISTER_MISMATCH:
            registers = messages.labels_from_pb(answer.registers)
            shown = ", ".join(f"{label.name}={label.value}" for label in registers)
            return RegisterMismatch(journal, f"found {shown or 'none'}", registers)
    if isinstance(answer, pb.ReadResponse) and status is Status.OFFSET_NOT_YET_AVAILABLE:
        head = answer.write_head
        return OffsetNotYetAvailable(journal, f"its write head is {head}", head)
    return status_error(status, journal, detail)


def read_request(request: ReadRequest, offset: int, min_revision: int) -> pb.ReadRequest:
    """A read from an offset on."""
    message = pb.ReadRequest(
        journal=request.journal,
        offset=offset,
        block=request.block,
        do_not_proxy=request.direct,
        metadata_only=request.metadata_only,
        end_offset=request.end_offset,
        begin_mod_time=request.begin_mod_time,
        min_etcd_revision=min_revision,
    )
    messages.check_read_request(message)
    return message


def list_request(
    selector: LabelSelector, *, watch: bool = False, resume: Header | None = None
) -> pb.ListRequest:
    """A listing, once or for as long as it is read."""
    message = pb.ListRequest(selector=messages.selector_to_pb(selector), watch=watch)
    if resume is not None:
        message.watch_resume.CopyFrom(messages.header_to_pb(resume))
    return message


def listed_journals(answer: pb.ListResponse) -> list[ListedJournal]:
    """The journals of one message of a listing."""
    try:
        return [
            ListedJournal(
                messages.spec_from_pb(journal.spec),
                journal.mod_revision,
                journal.create_revision,
                messages.route_from_pb(journal.route),
            )
            for journal in answer.journals
        ]
    except UsageError as error:
        raise InvalidAnswer("List", str(error)) from error


def apply_request(changes: Iterable[Change]) -> pb.ApplyRequest:
    """Changes of journals, made together or not at all."""
    message = pb.ApplyRequest()
    for change in changes:
        added = message.changes.add(expect_mod_revision=change.expect_mod_revision)
        if isinstance(change, Upsert):
            added.upsert.CopyFrom(messages.spec_to_pb(change.spec))
        else:
            added.delete = change.journal
    messages.check_apply_request(message)
    return message


def fragments_request(
    journal: str, page_limit: int, begin_mod_time: int, end_mod_time: int, ttl: float
) -> pb.FragmentsRequest:
    """The first page of a journal's fragments."""
    message = pb.FragmentsRequest(
        journal=journal,
        page_limit=page_limit,
        begin_mod_time=begin_mod_time,
        end_mod_time=end_mod_time,
    )
    if ttl:
        message.signatureTTL.CopyFrom(messages.duration_to_pb(ttl))
    messages.check_fragments_request(message)
    return message


def store_health_request(
    store: str, check_delete: bool, check_delete_prefix: str
) -> pb.FragmentStoreHealthRequest:
    """A trial of a store."""
    message = pb.FragmentStoreHealthRequest(
        fragment_store=store, check_delete=check_delete, check_delete_prefix=check_delete_prefix
    )
    messages.check_store_health_request(message)
    return message


def listed_fragments(answer: pb.FragmentsResponse) -> list[ListedFragment]:
    """The fragments of one page."""
    return [
        ListedFragment(messages.fragment_from_pb(listed.spec), listed.signed_url)
        for listed in answer.fragments
    ]
