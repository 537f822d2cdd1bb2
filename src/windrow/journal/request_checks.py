"""Which requests are acceptable before anything is known about the journal they name."""

from __future__ import annotations

from google.protobuf.message import Message

from windrow.journal.conversion import (
    duration_from_pb,
    fragment_from_pb,
    header_from_pb,
    labels_from_pb,
    selector_from_pb,
    spec_from_pb,
    suspend_control_from_pb,
)
from windrow.journal.errors import InvalidField, field
from windrow.journal.fragment import Fragment
from windrow.journal.labels import Label, LabelSelector, LabelSet
from windrow.journal.names import valid_journal, valid_path_text
from windrow.journal.store_url import valid_store
from windrow.journal.wire import protocol_pb2 as pb

MAX_PAGE = 10_000
DEFAULT_PAGE = 1_000
MAX_FETCH = 1 << 20
ANY_REVISION = -1


def check_append_request(message: pb.AppendRequest, first: bool) -> None:
    """Check a message of an append: the first names the journal, the others carry its bytes.

    An all-default message after the first is the commit mark.

    Raises:
        InvalidField: It does not.
    """
    if not first:
        _expect_only(message, "content", what="expected Content chunk")
        return
    _check_header(message)
    valid_journal(message.journal, allow_meta=True)
    if message.content:
        raise InvalidField("Content", "unexpected Content in the first message")
    _at_least("Offset", message.offset, 0)
    if message.HasField("check_registers"):
        with field("CheckRegisters"):
            selector_from_pb(message.check_registers).validate()
    if message.HasField("union_registers"):
        with field("UnionRegisters"):
            labels_from_pb(message.union_registers).validate()
    if message.HasField("subtract_registers"):
        with field("SubtractRegisters"):
            labels_from_pb(message.subtract_registers).validate()
    suspend_control_from_pb(message.suspend)
    _at_least("MinEtcdRevision", message.min_etcd_revision, 0)


def check_read_request(message: pb.ReadRequest) -> None:
    """Check a read: offset -1 asks for the write head, end offset 0 for no end.

    Raises:
        InvalidField: A field is out of its range.
    """
    _check_header(message)
    valid_journal(message.journal, allow_meta=True)
    _at_least("Offset", message.offset, -1)
    if message.end_offset != 0:
        _at_least("EndOffset", message.end_offset, max(message.offset, 0))
    _at_least("MinEtcdRevision", message.min_etcd_revision, 0)


def check_replicate_request(
    message: pb.ReplicateRequest, first: bool = False
) -> tuple[Fragment, LabelSet] | None:
    """Check a message to a replica: a proposal, a chunk of content, or the fetching of one.

    A proposal and its registers are returned as they were translated for it.

    Raises:
        InvalidField: It is neither or both, or the first has no header.
    """
    _at_least("AcknowledgedEnd", message.acknowledged_end, 0)
    if first and not message.HasField("header"):
        raise InvalidField("Header", "expected Header in the first message")
    if message.HasField("proposal"):
        return _check_proposal(message)
    if message.fetch_length:
        _check_fetch(message)
    else:
        _check_chunk(message)
    return None


def check_list_request(message: pb.ListRequest) -> None:
    """Check a list or watch request.

    Raises:
        InvalidField: The selector is malformed, or a resumption comes without a watch.
    """
    with field("Selector"):
        selector_from_pb(message.selector).validate()
    for labels in (message.selector.include, message.selector.exclude):
        for value in labels_from_pb(labels).values("prefix"):
            if not value.endswith("/"):
                raise InvalidField("Selector", f"label prefix must end in '/' ({value})")
    if message.HasField("watch_resume"):
        if not message.watch:
            raise InvalidField("WatchResume", "unexpected without Watch")
        with field("WatchResume"):
            header_from_pb(message.watch_resume).validate()


def list_selector(message: pb.ListRequest) -> LabelSelector:
    """The selector of a checked list request; ``prefix=a/`` has become ``name:prefix=a/``."""
    selector = selector_from_pb(message.selector)
    return LabelSelector(_with_name_prefix(selector.include), _with_name_prefix(selector.exclude))


def check_apply_request(message: pb.ApplyRequest) -> None:
    """Check every change: one of upsert and delete, of a journal that no other change names.

    Raises:
        InvalidField: A change is malformed, or a journal is changed twice.
    """
    seen: set[str] = set()
    for index, change in enumerate(message.changes):
        with field(f"Changes[{index}]"):
            journal = _check_change(change)
            if journal in seen:
                raise InvalidField("", f"journal {journal} is changed twice in one request")
            seen.add(journal)


def check_fragments_request(message: pb.FragmentsRequest) -> None:
    """Check a listing of fragments.

    Raises:
        InvalidField: A bound is out of its range.
    """
    _check_header(message)
    valid_journal(message.journal)
    _at_least("BeginModTime", message.begin_mod_time, 0)
    if message.end_mod_time != 0:
        _at_least("EndModTime", message.end_mod_time, message.begin_mod_time)
    _at_least("NextPageToken", message.next_page_token, 0)
    if not 0 <= message.page_limit <= MAX_PAGE:
        raise InvalidField(
            "PageLimit", f"invalid value ({message.page_limit}; expected 0 <= value <= {MAX_PAGE})"
        )
    if message.HasField("signatureTTL"):
        ttl = duration_from_pb(message.signatureTTL, "SignatureTTL")
        if ttl <= 0:
            raise InvalidField("SignatureTTL", f"expected a positive duration (have {ttl} s)")


def check_store_health_request(message: pb.FragmentStoreHealthRequest) -> None:
    """Check a request for a store's health.

    Raises:
        InvalidField: The store is no URL of one, or the probe's prefix climbs.
    """
    valid_store(message.fragment_store, context="FragmentStore")
    prefix = valid_path_text(message.check_delete_prefix, 0, 512, context="CheckDeletePrefix")
    if any(segment in (".", "..") for segment in prefix.split("/")) or prefix.startswith("/"):
        raise InvalidField("CheckDeletePrefix", f"must be a relative, clean path ({prefix})")


def _check_proposal(message: pb.ReplicateRequest) -> tuple[Fragment, LabelSet]:
    with field("Proposal"):
        proposal = fragment_from_pb(message.proposal)
        proposal.validate()
    if message.deprecated_journal not in ("", proposal.journal):
        raise InvalidField(
            "DeprecatedJournal", f"differs from the proposal's ({message.deprecated_journal})"
        )
    if not message.HasField("registers"):
        raise InvalidField("Registers", "expected Registers with a Proposal")
    with field("Registers"):
        registers = labels_from_pb(message.registers)
        registers.validate()
    if message.content or message.content_delta:
        raise InvalidField("Content", "unexpected Content with a Proposal")
    if message.HasField("header") and not message.acknowledge:
        raise InvalidField("Acknowledge", "expected Acknowledge with a Header")
    _check_header(message)
    if message.rewind and not proposal.is_empty:
        raise InvalidField("Rewind", f"expected an empty Proposal (have {proposal.length} bytes)")
    return proposal, registers


def _check_chunk(message: pb.ReplicateRequest) -> None:
    _expect_only(
        message, "content", "content_delta", "acknowledged_end", what="expected Content or Proposal"
    )
    if not message.content:
        raise InvalidField("Content", "expected Content or Proposal (both are empty)")
    _at_least("ContentDelta", message.content_delta, 0)


def _check_fetch(message: pb.ReplicateRequest) -> None:
    _expect_only(message, "fetch_offset", "fetch_length", what="expected Fetch alone")
    _at_least("FetchOffset", message.fetch_offset, 0)
    if not 0 < message.fetch_length <= MAX_FETCH:
        raise InvalidField(
            "FetchLength", f"expected 1 to {MAX_FETCH} (have {message.fetch_length})"
        )


def _check_change(change: pb.ApplyRequest.Change) -> str:
    is_upsert = change.HasField("upsert")
    if is_upsert == bool(change.delete):
        raise InvalidField("", "expected exactly one of Upsert and Delete")
    if is_upsert:
        with field("Upsert"):
            spec_from_pb(change.upsert).validate()
    else:
        valid_journal(change.delete, context="Delete")
    if change.expect_mod_revision != ANY_REVISION:
        _at_least("ExpectModRevision", change.expect_mod_revision, 0 if is_upsert else 1)
    return change.upsert.name if is_upsert else change.delete


def _check_header(
    message: pb.AppendRequest | pb.ReadRequest | pb.ReplicateRequest | pb.FragmentsRequest,
) -> None:
    if message.HasField("header"):
        with field("Header"):
            header_from_pb(message.header).validate()


def _expect_only(message: Message, *allowed: str, what: str) -> None:
    """Refuse a message with any other field set than those allowed."""
    for descriptor, _ in message.ListFields():
        if descriptor.name not in allowed:
            raise InvalidField(_camel(descriptor.name), what)


def _at_least(context: str, number: int, low: int) -> None:
    if number < low:
        raise InvalidField(context, f"invalid value ({number}; expected >= {low})")


def _with_name_prefix(labels: LabelSet) -> LabelSet:
    return LabelSet.of(
        Label("name", label.value, prefix=True) if label.name == "prefix" else label
        for label in labels
    )


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
