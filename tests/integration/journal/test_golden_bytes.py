"""Bytes of every request and answer, fixed: what other implementations send and expect.

Each entry is written three times: as hex in ``golden_bytes.txt``, by hand from the protocol's tags,
and through our own types and the generated code. All three must agree, and the bytes must read
back as the message and pass our own checks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.protobuf.message import Message

from tests.integration.journal.wire_by_hand import fixed32, fixed64, num, sub, text
from windrow.journal.codec import Codec
from windrow.journal.fragment import Fragment
from windrow.journal.labels import EMPTY, LabelSelector, LabelSet
from windrow.journal.messages import (
    broker_spec_to_pb,
    check_append_request,
    check_append_response,
    check_apply_request,
    check_apply_response,
    check_fragments_request,
    check_fragments_response,
    check_list_request,
    check_list_response,
    check_read_request,
    check_read_response,
    check_replicate_request,
    check_replicate_response,
    check_store_health_request,
    check_store_health_response,
    duration_to_pb,
    fragment_to_pb,
    header_to_pb,
    labels_to_pb,
    route_to_pb,
    selector_to_pb,
    spec_to_pb,
    status_to_pb,
    suspend_control_to_pb,
)
from windrow.journal.spec import (
    BrokerSpec,
    EtcdHeader,
    Flag,
    FragmentSpec,
    Header,
    JournalSpec,
    ProcessId,
    Route,
    Suspend,
    SuspendControl,
    SuspendLevel,
)
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

TABLE = Path(__file__).with_name("golden_bytes.txt")
MINUS_ONE = -1

# The values, and beside each the bytes that its tags say.
A, B = ProcessId("zone-a", "broker-1"), ProcessId("zone-b", "broker-2")
ID_A = text(1, "zone-a") + text(2, "broker-1")
ID_B = text(1, "zone-b") + text(2, "broker-2")

ROUTE = Route((A, B), 1, ("http://a:80", "http://b:80"))
ROUTE_BYTES = (
    sub(1, ID_A) + sub(1, ID_B) + num(2, 1) + text(3, "http://a:80") + text(3, "http://b:80")
)
UNROUTED_BYTES = num(2, MINUS_ONE)

ETCD = EtcdHeader(0xCAFE, 0xBEEF, 300, 7)
ETCD_BYTES = num(1, 0xCAFE) + num(2, 0xBEEF) + num(3, 300) + num(4, 7)

HEADER = Header(A, ROUTE, ETCD)
HEADER_BYTES = sub(1, ID_A) + sub(2, ROUTE_BYTES) + sub(3, ETCD_BYTES)
UNROUTED = Header(A, Route.NONE, ETCD)
UNROUTED_HEADER_BYTES = sub(1, ID_A) + sub(2, UNROUTED_BYTES) + sub(3, ETCD_BYTES)
ANYONE = Header(None, ROUTE, ETCD)
ANYONE_BYTES = sub(1) + sub(2, ROUTE_BYTES) + sub(3, ETCD_BYTES)

LABELS = LabelSet.of([("team", "web"), ("app", "shop"), ("team", "sales")])
LABELS_BYTES = (
    sub(1, text(1, "app"), text(2, "shop"))
    + sub(1, text(1, "team"), text(2, "sales"))
    + sub(1, text(1, "team"), text(2, "web"))
)
SELECTOR = LabelSelector.parse("team in (web,sales),name:prefix=shop/,!test")
SELECTOR_BYTES = sub(
    1,
    sub(1, text(1, "name"), text(2, "shop/"), num(3, 1)),
    sub(1, text(1, "team"), text(2, "sales")),
    sub(1, text(1, "team"), text(2, "web")),
) + sub(2, sub(1, text(1, "test")))

DIGEST = hashlib.sha1(b"hello").digest()
SUM_BYTES = fixed64(1, 0xAAF4C61DDCC5E8A2) + fixed64(2, 0xDABEDE0F3B482CD9) + fixed32(3, 0xAEA9434D)
FRAGMENT = Fragment("shop/orders", 1000, 1005, DIGEST, Codec.SNAPPY)
FRAGMENT_BYTES = (
    text(1, "shop/orders") + num(2, 1000) + num(3, 1005) + sub(4, SUM_BYTES) + num(5, 4)
)
STORED = Fragment(
    "shop/orders", 1000, 1005, DIGEST, Codec.GZIP, "s3://bucket/", 1700000000, "day=1"
)
STORED_BYTES = (
    text(1, "shop/orders")
    + num(2, 1000)
    + num(3, 1005)
    + sub(4, SUM_BYTES)
    + num(5, 2)
    + text(6, "s3://bucket/")
    + num(7, 1700000000)
    + text(8, "day=1")
)
EMPTY_FRAGMENT = Fragment("shop/orders", 1005, 1005, codec=Codec.SNAPPY)
EMPTY_FRAGMENT_BYTES = text(1, "shop/orders") + num(2, 1005) + num(3, 1005) + sub(4) + num(5, 4)

SPEC = JournalSpec(
    "shop/orders",
    3,
    LABELS,
    FragmentSpec(1 << 20, Codec.SNAPPY, ("s3://bucket/",), 300.0, -1.5, 3600.25, "p"),
    Flag.O_RDWR,
    65536,
    Suspend(SuspendLevel.PARTIAL, 1000),
)
SPEC_BYTES = (
    text(1, "shop/orders")
    + num(2, 3)
    + sub(3, LABELS_BYTES)
    + sub(
        4,
        num(1, 1 << 20),
        num(2, 4),
        text(3, "s3://bucket/"),
        sub(4, num(1, 300)),
        sub(5, num(1, -1), num(2, -500_000_000)),
        sub(6, num(1, 3600), num(2, 250_000_000)),
        text(7, "p"),
    )
    + num(6, 4)
    + num(7, 65536)
    + sub(8, num(1, 1), num(2, 1000))
)
PLAIN_SPEC = JournalSpec(
    "shop/plain", 1, EMPTY, FragmentSpec(1024, Codec.NONE, refresh_interval=1.0)
)
PLAIN_SPEC_BYTES = (
    text(1, "shop/plain")
    + num(2, 1)
    + sub(3)  # the labels, present though empty
    + sub(4, num(1, 1024), num(2, 1), sub(4, num(1, 1)), sub(5), sub(6))
)


@dataclass(frozen=True)
class Golden:
    name: str
    by_hand: bytes
    message: Message
    check: Callable[..., object] | None = None


def first_append(message: pb.AppendRequest) -> None:
    check_append_request(message, first=True)


def later_append(message: pb.AppendRequest) -> None:
    check_append_request(message, first=False)


def first_replicate(message: pb.ReplicateRequest) -> None:
    check_replicate_request(message, first=True)


def first_read(message: pb.ReadResponse) -> None:
    check_read_response(message, first=True)


def later_read(message: pb.ReadResponse) -> None:
    check_read_response(message, first=False)


def first_list(message: pb.ListResponse) -> None:
    check_list_response(message, first=True)


def later_list(message: pb.ListResponse) -> None:
    check_list_response(message, first=False)


GOLDEN = [
    # What is kept in etcd.
    Golden("etcd/journal-spec", SPEC_BYTES, spec_to_pb(SPEC)),
    Golden("etcd/journal-spec-plain", PLAIN_SPEC_BYTES, spec_to_pb(PLAIN_SPEC)),
    Golden(
        "etcd/broker-spec",
        sub(1, sub(1, ID_A), text(2, "http://a:80")) + num(2, 1024) + num(3, 1),
        broker_spec_to_pb(BrokerSpec(A, "http://a:80", 1024, exiting=True)),
    ),
    Golden(
        "etcd/broker-spec-that-stays",  # as announced: what is false is not written
        sub(1, sub(1, ID_A), text(2, "http://a:80")) + num(2, 1024),
        broker_spec_to_pb(BrokerSpec(A, "http://a:80", 1024)),
    ),
    Golden(
        "etcd/assignment-route",
        sub(1, ID_A) + sub(1, ID_B),  # a primary of 0 is not written
        route_to_pb(Route((A, B), 0)),
    ),
    Golden(
        "etcd/assignment-route-of-another-primary",
        sub(1, ID_A) + sub(1, ID_B) + num(2, 1),
        route_to_pb(Route((A, B), 1)),
    ),
    # List.
    Golden("list/request-all", b"", pb.ListRequest(), check_list_request),
    Golden(
        "list/request-watch",
        sub(1, SELECTOR_BYTES) + num(4, 1) + sub(5, UNROUTED_HEADER_BYTES),
        pb.ListRequest(
            selector=selector_to_pb(SELECTOR), watch=True, watch_resume=header_to_pb(UNROUTED)
        ),
        check_list_request,
    ),
    Golden(
        "list/response-first-though-empty",
        sub(2, UNROUTED_HEADER_BYTES),
        pb.ListResponse(status=status_to_pb(Status.OK), header=header_to_pb(UNROUTED)),
        first_list,
    ),
    Golden(
        "list/response-journals",
        sub(2, UNROUTED_HEADER_BYTES)
        + sub(3, sub(1, SPEC_BYTES), num(2, 299), sub(3, ROUTE_BYTES), num(4, 5))
        + sub(3, sub(1, PLAIN_SPEC_BYTES), num(2, 300), sub(3, UNROUTED_BYTES), num(4, 300)),
        pb.ListResponse(
            header=header_to_pb(UNROUTED),
            journals=[
                pb.ListResponse.Journal(
                    spec=spec_to_pb(SPEC),
                    mod_revision=299,
                    route=route_to_pb(ROUTE),
                    create_revision=5,
                ),
                pb.ListResponse.Journal(
                    spec=spec_to_pb(PLAIN_SPEC),
                    mod_revision=300,
                    route=route_to_pb(Route.NONE),
                    create_revision=300,
                ),
            ],
        ),
        first_list,
    ),
    Golden("list/response-end-of-snapshot", b"", pb.ListResponse(), later_list),
    # Apply.
    Golden(
        "apply/request",
        sub(1, sub(2, PLAIN_SPEC_BYTES))
        + sub(1, num(1, 299), sub(2, SPEC_BYTES))
        + sub(1, num(1, MINUS_ONE), text(3, "shop/gone")),
        pb.ApplyRequest(
            changes=[
                pb.ApplyRequest.Change(upsert=spec_to_pb(PLAIN_SPEC)),
                pb.ApplyRequest.Change(expect_mod_revision=299, upsert=spec_to_pb(SPEC)),
                pb.ApplyRequest.Change(expect_mod_revision=-1, delete="shop/gone"),
            ]
        ),
        check_apply_request,
    ),
    Golden(
        "apply/response",
        sub(2, UNROUTED_HEADER_BYTES),
        pb.ApplyResponse(header=header_to_pb(UNROUTED)),
        check_apply_response,
    ),
    Golden(
        "apply/response-stale-revision",
        num(1, 9) + sub(2, UNROUTED_HEADER_BYTES),
        pb.ApplyResponse(
            status=status_to_pb(Status.ETCD_TRANSACTION_FAILED), header=header_to_pb(UNROUTED)
        ),
        check_apply_response,
    ),
    # Read.
    Golden(
        "read/request",
        text(2, "shop/orders;meta") + num(3, 1000) + num(4, 1) + num(5, 1),
        pb.ReadRequest(journal="shop/orders;meta", offset=1000, block=True, do_not_proxy=True),
        check_read_request,
    ),
    Golden(
        "read/request-head",
        text(2, "shop/orders") + num(3, MINUS_ONE) + num(6, 1),
        pb.ReadRequest(journal="shop/orders", offset=-1, metadata_only=True),
        check_read_request,
    ),
    Golden(
        "read/request-proxied",
        sub(1, ANYONE_BYTES)
        + text(2, "shop/orders")
        + num(3, 5)
        + num(7, 9)
        + num(8, 1700000000)
        + num(9, 300),
        pb.ReadRequest(
            header=header_to_pb(ANYONE),
            journal="shop/orders",
            offset=5,
            end_offset=9,
            begin_mod_time=1700000000,
            min_etcd_revision=300,
        ),
        check_read_request,
    ),
    Golden(
        "read/response-metadata",
        sub(2, HEADER_BYTES)
        + num(3, 1000)
        + num(4, 1005)
        + sub(5, STORED_BYTES)
        + text(6, "http://signed"),
        pb.ReadResponse(
            header=header_to_pb(HEADER),
            offset=1000,
            write_head=1005,
            fragment=fragment_to_pb(STORED),
            fragment_url="http://signed",
        ),
        first_read,
    ),
    Golden(
        "read/response-content",
        num(3, 1000) + sub(7, b"hello"),
        pb.ReadResponse(offset=1000, content=b"hello"),
        later_read,
    ),
    Golden(
        "read/response-not-yet",
        num(1, 6) + sub(2, HEADER_BYTES) + num(3, 1005) + num(4, 1005),
        pb.ReadResponse(
            status=status_to_pb(Status.OFFSET_NOT_YET_AVAILABLE),
            header=header_to_pb(HEADER),
            offset=1005,
            write_head=1005,
        ),
        first_read,
    ),
    Golden(
        "read/response-not-found",
        num(1, 1) + sub(2, UNROUTED_HEADER_BYTES),
        pb.ReadResponse(
            status=status_to_pb(Status.JOURNAL_NOT_FOUND), header=header_to_pb(UNROUTED)
        ),
        first_read,
    ),
    # Append.
    Golden(
        "append/request",
        text(2, "shop/orders"),
        pb.AppendRequest(journal="shop/orders"),
        first_append,
    ),
    Golden(
        "append/request-full",
        sub(1, HEADER_BYTES)
        + text(2, "shop/orders")
        + num(3, 1)
        + num(5, 1000)
        + sub(6, SELECTOR_BYTES)
        + sub(7, LABELS_BYTES)
        + sub(8)
        + num(9, 4)
        + num(10, 300),
        pb.AppendRequest(
            header=header_to_pb(HEADER),
            journal="shop/orders",
            do_not_proxy=True,
            offset=1000,
            check_registers=selector_to_pb(SELECTOR),
            union_registers=labels_to_pb(LABELS),
            subtract_registers=labels_to_pb(EMPTY),
            suspend=suspend_control_to_pb(SuspendControl.KEEP),
            min_etcd_revision=300,
        ),
        first_append,
    ),
    Golden(
        "append/request-content",
        sub(4, b"hello"),
        pb.AppendRequest(content=b"hello"),
        later_append,
    ),
    Golden("append/request-commit-mark", b"", pb.AppendRequest(), later_append),
    Golden(
        "append/response-registers-present-though-empty",
        sub(2, HEADER_BYTES) + sub(3, FRAGMENT_BYTES) + sub(4) + num(5, 2) + num(6, 1),
        pb.AppendResponse(
            header=header_to_pb(HEADER),
            commit=fragment_to_pb(FRAGMENT),
            registers=labels_to_pb(EMPTY),
            total_chunks=2,
            delayed_chunks=1,
        ),
        check_append_response,
    ),
    Golden(
        "append/response-register-mismatch",
        num(1, 13) + sub(2, HEADER_BYTES) + sub(4, LABELS_BYTES),
        pb.AppendResponse(
            status=status_to_pb(Status.REGISTER_MISMATCH),
            header=header_to_pb(HEADER),
            registers=labels_to_pb(LABELS),
        ),
        check_append_response,
    ),
    Golden(
        "append/response-not-found",
        num(1, 1) + sub(2, UNROUTED_HEADER_BYTES),
        pb.AppendResponse(
            status=status_to_pb(Status.JOURNAL_NOT_FOUND), header=header_to_pb(UNROUTED)
        ),
        check_append_response,
    ),
    Golden(
        "append/response-store-unhealthy",
        num(1, 15) + sub(2, HEADER_BYTES) + text(7, "no bucket"),
        pb.AppendResponse(
            status=status_to_pb(Status.FRAGMENT_STORE_UNHEALTHY),
            header=header_to_pb(HEADER),
            store_health_error="no bucket",
        ),
        check_append_response,
    ),
    # Replicate; the fields from 1001 are ours.
    Golden(
        "replicate/request-sync",
        sub(1, HEADER_BYTES) + sub(3, EMPTY_FRAGMENT_BYTES) + num(6, 1) + sub(7),
        pb.ReplicateRequest(
            header=header_to_pb(HEADER),
            proposal=fragment_to_pb(EMPTY_FRAGMENT),
            acknowledge=True,
            registers=labels_to_pb(EMPTY),
        ),
        first_replicate,
    ),
    Golden(
        "replicate/request-rewind",
        sub(1, HEADER_BYTES)
        + sub(3, EMPTY_FRAGMENT_BYTES)
        + num(6, 1)
        + sub(7, LABELS_BYTES)
        + fixed64(1001, 0x0123456789ABCDEF)
        + num(1002, 1005)
        + num(1003, 1),
        pb.ReplicateRequest(
            header=header_to_pb(HEADER),
            proposal=fragment_to_pb(EMPTY_FRAGMENT),
            acknowledge=True,
            registers=labels_to_pb(LABELS),
            term=0x0123456789ABCDEF,
            acknowledged_end=1005,
            rewind=True,
        ),
        first_replicate,
    ),
    Golden(
        "replicate/request-content",
        sub(4, b"hello") + num(5, 32),
        pb.ReplicateRequest(content=b"hello", content_delta=32),
        check_replicate_request,
    ),
    Golden(
        "replicate/request-commit",
        sub(3, FRAGMENT_BYTES) + num(6, 1) + sub(7, LABELS_BYTES),
        pb.ReplicateRequest(
            proposal=fragment_to_pb(FRAGMENT), acknowledge=True, registers=labels_to_pb(LABELS)
        ),
        check_replicate_request,
    ),
    Golden(
        "replicate/request-joined",
        sub(3, FRAGMENT_BYTES) + num(6, 1) + sub(7) + num(1002, 1000) + sub(1006, b"hello"),
        pb.ReplicateRequest(
            proposal=fragment_to_pb(FRAGMENT),
            acknowledge=True,
            registers=labels_to_pb(EMPTY),
            acknowledged_end=1000,
            joined_content=b"hello",
        ),
        check_replicate_request,
    ),
    Golden(
        "replicate/request-fetch",
        num(1004, 1000) + num(1005, 5),
        pb.ReplicateRequest(fetch_offset=1000, fetch_length=5),
        check_replicate_request,
    ),
    Golden("replicate/response-ok", b"", pb.ReplicateResponse(), check_replicate_response),
    Golden(
        "replicate/response-mismatch",
        num(1, 8)
        + sub(2, HEADER_BYTES)
        + sub(3, FRAGMENT_BYTES)
        + sub(4)
        + fixed64(1001, 17)
        + fixed64(1002, 18),
        pb.ReplicateResponse(
            status=status_to_pb(Status.PROPOSAL_MISMATCH),
            header=header_to_pb(HEADER),
            fragment=fragment_to_pb(FRAGMENT),
            registers=labels_to_pb(EMPTY),
            term=17,
            agreed_term=18,
        ),
        check_replicate_response,
    ),
    Golden(
        "replicate/response-wrong-route",
        num(1, 7) + sub(2, HEADER_BYTES),
        pb.ReplicateResponse(status=status_to_pb(Status.WRONG_ROUTE), header=header_to_pb(HEADER)),
        check_replicate_response,
    ),
    Golden(
        "replicate/response-synced",
        sub(2, HEADER_BYTES) + num(1003, 1000) + num(1005, 1),
        pb.ReplicateResponse(header=header_to_pb(HEADER), acknowledged_end=1000, takes_joined=True),
        check_replicate_response,
    ),
    Golden(
        "replicate/response-fetched",
        sub(1004, b"hello"),
        pb.ReplicateResponse(content=b"hello"),
        check_replicate_response,
    ),
    # ListFragments.
    Golden(
        "fragments/request",
        sub(1, HEADER_BYTES)
        + text(2, "shop/orders")
        + num(3, 1600000000)
        + num(4, 1700000000)
        + num(5, 1000)
        + num(6, 100)
        + sub(7, num(1, 3600))
        + num(8, 1),
        pb.FragmentsRequest(
            header=header_to_pb(HEADER),
            journal="shop/orders",
            begin_mod_time=1600000000,
            end_mod_time=1700000000,
            next_page_token=1000,
            page_limit=100,
            signatureTTL=duration_to_pb(3600.0),
            do_not_proxy=True,
        ),
        check_fragments_request,
    ),
    Golden(
        "fragments/response",
        sub(2, HEADER_BYTES)
        + sub(3, sub(1, STORED_BYTES), text(2, "http://signed"))
        + sub(3, sub(1, FRAGMENT_BYTES))
        + num(4, 1005),
        pb.FragmentsResponse(
            header=header_to_pb(HEADER),
            fragments=[
                pb.FragmentsResponse._Fragment(
                    spec=fragment_to_pb(STORED), signed_url="http://signed"
                ),
                pb.FragmentsResponse._Fragment(spec=fragment_to_pb(FRAGMENT)),
            ],
            next_page_token=1005,
        ),
        check_fragments_response,
    ),
    Golden(
        "fragments/response-last-page-though-empty",
        sub(2, HEADER_BYTES),
        pb.FragmentsResponse(header=header_to_pb(HEADER)),
        check_fragments_response,
    ),
    # FragmentStoreHealth.
    Golden(
        "store-health/request",
        text(1, "s3://bucket/") + num(2, 1) + text(3, "probe/"),
        pb.FragmentStoreHealthRequest(
            fragment_store="s3://bucket/", check_delete=True, check_delete_prefix="probe/"
        ),
        check_store_health_request,
    ),
    Golden(
        "store-health/response",
        num(1, 15) + sub(2, UNROUTED_HEADER_BYTES) + text(3, "no bucket"),
        pb.FragmentStoreHealthResponse(
            status=status_to_pb(Status.FRAGMENT_STORE_UNHEALTHY),
            header=header_to_pb(UNROUTED),
            store_health_error="no bucket",
        ),
        check_store_health_response,
    ),
    Golden(
        "store-health/response-healthy",
        sub(2, UNROUTED_HEADER_BYTES),
        pb.FragmentStoreHealthResponse(header=header_to_pb(UNROUTED)),
        check_store_health_response,
    ),
]
by_entry = pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)


def committed() -> dict[str, bytes]:
    """The committed table: a name and its bytes in hex on each line, a dash for none."""
    lines = (line.split(" ") for line in TABLE.read_text().splitlines())
    return {name: bytes.fromhex(digits.strip("-")) for name, digits in lines}


@by_entry
def test_our_messages_have_the_bytes_of_the_protocol(golden: Golden) -> None:
    assert golden.message.SerializeToString(deterministic=True).hex() == golden.by_hand.hex()


@by_entry
def test_the_bytes_are_those_of_the_committed_table(golden: Golden) -> None:
    assert golden.by_hand == committed()[golden.name]


@by_entry
def test_the_bytes_read_back_and_pass_our_checks(golden: Golden) -> None:
    message = type(golden.message).FromString(golden.by_hand)
    assert message == golden.message
    if golden.check is not None:
        golden.check(message)


def test_the_committed_table_has_no_other_entries() -> None:
    assert list(committed()) == [golden.name for golden in GOLDEN]


def test_every_rpc_has_a_golden_request_and_answer() -> None:
    service = pb.DESCRIPTOR.services_by_name["Journal"]
    covered = {type(golden.message).DESCRIPTOR.name for golden in GOLDEN}
    for method in service.methods:
        assert {method.input_type.name, method.output_type.name} <= covered, method.name


def test_every_field_of_our_own_is_among_the_golden_bytes() -> None:
    """Two brokers of different releases have to agree on them as well."""
    messages = (pb.ReplicateRequest, pb.ReplicateResponse)
    ours = {(k.__name__, f.name) for k in messages for f in k.DESCRIPTOR.fields if f.number > 1000}
    used = {
        (type(golden.message).__name__, descriptor.name)
        for golden in GOLDEN
        for descriptor, _ in golden.message.ListFields()
    }
    assert ours <= used


def test_an_unrouted_route_says_that_it_has_no_primary() -> None:
    """Left out, the primary would read as 0, which no empty route can have."""
    assert UNROUTED_BYTES.hex() == "10ffffffffffffffffff01"
    assert route_to_pb(Route.NONE).SerializeToString() == UNROUTED_BYTES


def test_a_sum_is_three_big_endian_words_in_little_endian_fields() -> None:
    assert DIGEST.hex() == "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
    assert SUM_BYTES.hex() == "09a2e8c5dc1dc6f4aa11d92c483b0fdebeda1d4d43a9ae"
