"""Which answers a client may rely on: the promises of a broker, checked at the client's door."""

from __future__ import annotations

from functools import lru_cache

from windrow.journal.conversion import (
    fragment_from_pb,
    header_from_pb,
    labels_from_pb,
    route_from_pb,
    spec_from_pb,
    status_from_pb,
)
from windrow.journal.errors import InvalidField, field
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb


def check_append_response(message: pb.AppendResponse) -> Status:
    """Check the answer to an append and return its status.

    Raises:
        InvalidField: It lacks its header, its commit, or the registers that belong to its status.
    """
    status = _check_status_and_header(message)
    if status is Status.OK:
        if not message.HasField("commit"):
            raise InvalidField("Commit", "expected Commit with status OK")
        with field("Commit"):
            fragment_from_pb(message.commit).validate()
    if status in (Status.OK, Status.REGISTER_MISMATCH) and not message.HasField("registers"):
        raise InvalidField("Registers", f"expected Registers with status {status.name}")
    with field("Registers"):
        labels_from_pb(message.registers).validate()
    return status


def check_read_response(message: pb.ReadResponse, first: bool) -> Status:
    """Check a message of a read and return its status.

    Raises:
        InvalidField: The first has no header, metadata does not cover the offset, or content
            comes with anything but its offset.
    """
    status = status_from_pb(message.status)
    if first or message.HasField("header"):
        _check_status_and_header(message)
    if message.content:
        _check_content(message)
    elif message.HasField("fragment"):
        _check_metadata(message)
    elif status is Status.OK:
        raise InvalidField("Fragment", "expected Fragment or Content with status OK")
    return status


def check_list_response(message: pb.ListResponse, first: bool) -> Status:
    """Check a message of a listing and return its status; only the first must have a header.

    Raises:
        InvalidField: The header is missing, or a journal has no valid spec, route or revision.
    """
    status = status_from_pb(message.status)
    if first or message.HasField("header"):
        status = _check_status_and_header(message)
    for index, journal in enumerate(message.journals):
        with field(f"Journals[{index}]"):
            _check_listed(journal)
    return status


def check_apply_response(message: pb.ApplyResponse) -> Status:
    """Check the answer to an apply and return its status.

    Raises:
        InvalidField: It has no valid header.
    """
    return _check_status_and_header(message)


def check_fragments_response(message: pb.FragmentsResponse) -> Status:
    """Check a page of fragments and return its status.

    Raises:
        InvalidField: It has no valid header, or a fragment is malformed.
    """
    status = _check_status_and_header(message)
    for index, listed in enumerate(message.fragments):
        with field(f"Fragments[{index}].Spec"):
            fragment_from_pb(listed.spec).validate()
    if message.next_page_token < 0:
        raise InvalidField("NextPageToken", f"invalid value ({message.next_page_token})")
    return status


def check_store_health_response(message: pb.FragmentStoreHealthResponse) -> Status:
    """Check the answer about a store's health and return its status.

    Raises:
        InvalidField: It has no valid header.
    """
    return _check_status_and_header(message)


def check_replicate_response(message: pb.ReplicateResponse) -> Status:
    """Check a replica's answer and return its status.

    Raises:
        InvalidField: It lacks what its status promises: a mismatch the replica's fragment and
            registers, a wrong route the replica's header.
    """
    status = status_from_pb(message.status)
    if message.HasField("header"):
        _check_status_and_header(message)
    elif status is Status.WRONG_ROUTE:
        raise InvalidField("Header", "expected Header with status WRONG_ROUTE")
    if status is Status.PROPOSAL_MISMATCH:
        for name in ("fragment", "registers"):
            if not message.HasField(name):
                raise InvalidField(
                    name.capitalize(), f"expected {name.capitalize()} with status {status.name}"
                )
    if message.HasField("fragment"):
        with field("Fragment"):
            fragment_from_pb(message.fragment).validate()
    with field("Registers"):
        labels_from_pb(message.registers).validate()
    return status


def _check_status_and_header(
    message: pb.AppendResponse
    | pb.ReadResponse
    | pb.ListResponse
    | pb.ApplyResponse
    | pb.FragmentsResponse
    | pb.FragmentStoreHealthResponse
    | pb.ReplicateResponse,
) -> Status:
    status = status_from_pb(message.status)
    with field("Header"):
        _check_header(message.header.SerializeToString())
    return status


@lru_cache(maxsize=1024)  # the same ones come with every answer of a journal
def _check_header(encoded: bytes) -> None:
    header_from_pb(pb.Header.FromString(encoded)).validate()


def _check_content(message: pb.ReadResponse) -> None:
    for descriptor, _ in message.ListFields():
        if descriptor.name not in ("offset", "content"):
            raise InvalidField("Content", f"unexpected {descriptor.name} with Content")
    if message.offset < 0:
        raise InvalidField("Offset", f"invalid value ({message.offset}; expected >= 0)")


def _check_metadata(message: pb.ReadResponse) -> None:
    with field("Fragment"):
        fragment = fragment_from_pb(message.fragment)
        fragment.validate()
    if not fragment.contains(message.offset) or fragment.end > message.write_head:
        raise InvalidField(
            "Fragment",
            f"expected begin <= offset < end <= write head (have {fragment.begin},"
            f" {message.offset}, {fragment.end}, {message.write_head})",
        )


def _check_listed(journal: pb.ListResponse.Journal) -> None:
    with field("Spec"):
        spec_from_pb(journal.spec).validate()
    if journal.mod_revision <= 0:
        raise InvalidField("ModRevision", f"invalid value ({journal.mod_revision}; expected > 0)")
    with field("Route"):
        route_from_pb(journal.route).validate()
