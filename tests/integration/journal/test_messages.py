"""The door between the wire and our types: translation both ways, and every check, by table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal import messages
from windrow.journal.codec import Codec
from windrow.journal.errors import InvalidField
from windrow.journal.fragment import MAX_OFFSET, Fragment
from windrow.journal.labels import EMPTY, Label, LabelSelector, LabelSet
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

offsets = st.integers(0, MAX_OFFSET)
words = st.text("abcd", min_size=4, max_size=8)
processes = st.builds(ProcessId, words, words)
labels = st.dictionaries(words, words).map(LabelSet.of)
selectors = st.builds(LabelSelector, labels, labels)
durations = st.integers(-(2**63) + 1, 2**63 - 1).map(lambda nanos: nanos / 10**9)
fragment_specs = st.builds(
    FragmentSpec,
    offsets,
    st.sampled_from(Codec),
    st.lists(words).map(tuple),
    durations,
    durations,
    durations,
    words,
)
specs = st.builds(
    JournalSpec,
    words,
    st.integers(0, 5),
    labels,
    fragment_specs,
    st.sampled_from(Flag),
    offsets,
    st.builds(Suspend, st.sampled_from(SuspendLevel), offsets),
)
fragments = st.builds(
    Fragment,
    words,
    offsets,
    offsets,
    st.binary(min_size=20, max_size=20),
    st.sampled_from(Codec),
    words,
    offsets,
    words,
)
routes = st.builds(
    Route, st.lists(processes).map(tuple), st.integers(-1, 5), st.lists(words).map(tuple)
)
numbers = st.integers(0, 2**64 - 1)
headers = st.builds(
    Header,
    st.none() | processes,
    routes,
    st.builds(EtcdHeader, numbers, numbers, offsets, numbers),
)
brokers = st.builds(BrokerSpec, processes, words, st.integers(0, 2**17), st.booleans())


@given(labels, selectors, specs, fragments, routes, headers, brokers)
def test_every_type_comes_back_from_the_wire_as_it_was(
    labels: LabelSet,
    selector: LabelSelector,
    spec: JournalSpec,
    fragment: Fragment,
    route: Route,
    header: Header,
    broker: BrokerSpec,
) -> None:
    assert messages.labels_from_pb(messages.labels_to_pb(labels)) == labels
    assert messages.selector_from_pb(messages.selector_to_pb(selector)) == selector
    assert messages.spec_from_pb(messages.spec_to_pb(spec)) == spec
    assert messages.fragment_from_pb(messages.fragment_to_pb(fragment)) == fragment
    assert messages.route_from_pb(messages.route_to_pb(route)) == route
    assert messages.header_from_pb(messages.header_to_pb(header)) == header
    assert messages.broker_spec_from_pb(messages.broker_spec_to_pb(broker)) == broker


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Status, pb.Status),
        (Codec, pb.CompressionCodec),
        (SuspendLevel, pb.JournalSpec.Suspend.Level),
    ],
)
def test_enumerations_are_those_of_the_wire(ours: Any, theirs: Any) -> None:
    assert {member.name: int(member) for member in ours} == dict(theirs.items())


def test_suspend_controls_are_those_of_the_wire() -> None:
    wire = {f"SUSPEND_{control.name}": int(control) for control in SuspendControl}
    assert wire == dict(pb.AppendRequest.Suspend.items())


@pytest.mark.parametrize("codec", [6, -1])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(InvalidField, match=rf"^CompressionCodec: unknown Codec \({codec}\)"):
        messages.codec_from_pb(codec)


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(1, -1), (-1, 1), (0, 10**9), (0, -(10**9)), (9_223_372_037, 0), (-(2**62), 0)],
)
def test_a_duration_that_contradicts_itself_is_refused(seconds: int, nanos: int) -> None:
    with pytest.raises(InvalidField, match=r"^Retention: not a duration"):
        messages.duration_from_pb(Duration(seconds=seconds, nanos=nanos), "Retention")


A, B = ProcessId("zone-a", "broker-1"), ProcessId("zone-b", "broker-2")
GOOD_SPEC = JournalSpec("a/journal", 1, EMPTY, FragmentSpec(1024, Codec.NONE, (), 1.0))


def test_what_etcd_keeps_is_validated_as_it_is_read() -> None:
    spec, broker, route = GOOD_SPEC, BrokerSpec(A, "http://h:1", 9), Route((A, B), 1)
    assert messages.decode_spec(messages.encode_spec(spec)) == spec
    assert messages.decode_broker_spec(messages.encode_broker_spec(broker)) == broker
    assert messages.decode_route(messages.encode_route(route)) == route
    with pytest.raises(InvalidField, match=r"^JournalSpec\.Name: invalid length"):
        messages.decode_spec(messages.encode_spec(JournalSpec("x")))
    with pytest.raises(InvalidField, match=r"^BrokerSpec\.ProcessSpec\.Endpoint"):
        messages.decode_broker_spec(messages.encode_broker_spec(BrokerSpec(A, "x")))
    with pytest.raises(InvalidField, match=r"^Route\.Primary"):
        messages.decode_route(messages.encode_route(Route((), 3)))
    for decode in (messages.decode_spec, messages.decode_broker_spec, messages.decode_route):
        with pytest.raises(InvalidField, match=r"not a message of this kind \(3 bytes"):
            decode(b"\xff\xff\xff")


ETCD = pb.Header.Etcd(cluster_id=1, member_id=2, revision=3, raft_term=4)
HEADER = pb.Header(route=pb.Route(primary=-1), etcd=ETCD)
NO_ETCD = pb.Header(route=pb.Route(primary=-1))
FRAGMENT = pb.Fragment(journal="a/journal", begin=5, end=9, compression_codec=pb.NONE)
EMPTY_FRAGMENT = pb.Fragment(journal="a/journal", begin=9, end=9, compression_codec=pb.NONE)
UNSORTED = pb.LabelSet(labels=[pb.Label(name="bb"), pb.Label(name="aa")])
SPEC = messages.spec_to_pb(GOOD_SPEC)


def append(**fields: Any) -> pb.AppendRequest:
    return pb.AppendRequest(**{"journal": "a/journal", **fields})


def read(**fields: Any) -> pb.ReadRequest:
    return pb.ReadRequest(**{"journal": "a/journal", **fields})


def propose(**fields: Any) -> pb.ReplicateRequest:
    return pb.ReplicateRequest(**{"proposal": FRAGMENT, "registers": pb.LabelSet(), **fields})


def listing(text: str, **fields: Any) -> pb.ListRequest:
    return pb.ListRequest(selector=messages.selector_to_pb(LabelSelector.parse(text)), **fields)


def apply(*changes: dict[str, Any]) -> pb.ApplyRequest:
    return pb.ApplyRequest(changes=[pb.ApplyRequest.Change(**change) for change in changes])


def paging(**fields: Any) -> pb.FragmentsRequest:
    return pb.FragmentsRequest(**{"journal": "a/journal", **fields})


def health(**fields: Any) -> pb.FragmentStoreHealthRequest:
    return pb.FragmentStoreHealthRequest(**{"fragment_store": "file:///a/", **fields})


def check(message: Any) -> None:
    """Check a message that is not the first of its stream, or of none."""
    _CHECKS[type(message)](message)


_CHECKS: dict[type, Callable[[Any], object]] = {
    pb.AppendRequest: lambda message: messages.check_append_request(message, first=True),
    pb.ReadRequest: messages.check_read_request,
    pb.ReplicateRequest: messages.check_replicate_request,
    pb.ListRequest: messages.check_list_request,
    pb.ApplyRequest: messages.check_apply_request,
    pb.FragmentsRequest: messages.check_fragments_request,
    pb.FragmentStoreHealthRequest: messages.check_store_health_request,
}


@pytest.mark.parametrize(
    "message",
    [
        append(),
        append(journal="a/journal;meta", header=HEADER, offset=7, min_etcd_revision=3),
        append(union_registers=pb.LabelSet(), subtract_registers=pb.LabelSet()),
        read(journal="a/journal;meta", header=HEADER),
        read(offset=-1),
        read(offset=5, end_offset=5),
        propose(),
        propose(header=HEADER, acknowledge=True, deprecated_journal="a/journal"),
        propose(proposal=EMPTY_FRAGMENT, acknowledge=True, rewind=True, term=7),
        pb.ReplicateRequest(content=b"x"),
        pb.ReplicateRequest(content=b"x", content_delta=9, acknowledged_end=5),
        pb.ReplicateRequest(fetch_offset=7, fetch_length=messages.MAX_FETCH),
        listing(""),
        listing("prefix=a/,!name", watch=True, watch_resume=HEADER),
        apply(),
        apply({"upsert": SPEC}, {"delete": "b/journal", "expect_mod_revision": 1}),
        apply({"upsert": SPEC, "expect_mod_revision": -1}),
        apply({"delete": "b/journal", "expect_mod_revision": -1}),
        paging(),
        paging(page_limit=10_000, begin_mod_time=3, end_mod_time=3, next_page_token=5),
        paging(signatureTTL=Duration(nanos=1)),
        health(),
        health(check_delete=True, check_delete_prefix="a/b/"),
    ],
)
def test_good_requests_pass(message: Any) -> None:
    check(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (append(journal="/bad/name"), "Journal: cannot begin with '/' (/bad/name)"),
        (append(journal=""), "Journal: invalid length (0;"),
        (append(content=b"x"), "Content: unexpected Content in the first message"),
        (append(offset=-1), "Offset: invalid value (-1; expected >= 0)"),
        (append(header=NO_ETCD), "Header.Etcd.ClusterId: expected a positive number"),
        (append(header=pb.Header(etcd=ETCD)), "Header.Route.Primary: invalid primary (0;"),
        (
            append(check_registers=pb.LabelSelector(include=UNSORTED)),
            "CheckRegisters.Include.Labels[1]: must sort after",
        ),
        (append(union_registers=UNSORTED), "UnionRegisters.Labels[1]: must sort after"),
        (append(subtract_registers=UNSORTED), "SubtractRegisters.Labels[1]: must sort after"),
        (append(suspend=9), "Suspend: unknown SuspendControl (9)"),
        (append(min_etcd_revision=-1), "MinEtcdRevision: invalid value (-1;"),
        (read(journal="x"), "Journal: invalid length (1;"),
        (read(header=NO_ETCD), "Header.Etcd.ClusterId"),
        (read(offset=-2), "Offset: invalid value (-2; expected >= -1)"),
        (read(offset=5, end_offset=4), "EndOffset: invalid value (4; expected >= 5)"),
        (read(offset=-1, end_offset=-1), "EndOffset: invalid value (-1; expected >= 0)"),
        (read(min_etcd_revision=-1), "MinEtcdRevision: invalid value (-1;"),
        (propose(proposal=pb.Fragment()), "Proposal.Journal: invalid length (0;"),
        (propose(registers=UNSORTED), "Registers.Labels[1]: must sort after"),
        (propose(registers=None), "Registers: expected Registers with a Proposal"),
        (propose(content=b"x"), "Content: unexpected Content with a Proposal"),
        (propose(content_delta=1), "Content: unexpected Content with a Proposal"),
        (propose(header=HEADER), "Acknowledge: expected Acknowledge with a Header"),
        (propose(header=NO_ETCD, acknowledge=True), "Header.Etcd.ClusterId"),
        (propose(deprecated_journal="b/journal"), "DeprecatedJournal: differs"),
        (propose(rewind=True), "Rewind: expected an empty Proposal (have 4 bytes)"),
        (propose(acknowledged_end=-1), "AcknowledgedEnd: invalid value (-1;"),
        (pb.ReplicateRequest(), "Content: expected Content or Proposal (both are empty)"),
        (pb.ReplicateRequest(content_delta=4), "Content: expected Content or Proposal (both"),
        (pb.ReplicateRequest(content=b"x", content_delta=-1), "ContentDelta: invalid value (-1;"),
        (pb.ReplicateRequest(content=b"x", acknowledge=True), "Acknowledge: expected Content or"),
        (pb.ReplicateRequest(content=b"x", header=HEADER), "Header: expected Content or"),
        (pb.ReplicateRequest(content=b"x", term=1), "Term: expected Content or"),
        (pb.ReplicateRequest(fetch_length=1, content=b"x"), "Content: expected Fetch alone"),
        (pb.ReplicateRequest(fetch_length=1, fetch_offset=-1), "FetchOffset: invalid value (-1;"),
        (pb.ReplicateRequest(fetch_length=-1), "FetchLength: expected 1 to 1048576 (have -1)"),
        (pb.ReplicateRequest(fetch_length=1 << 21), "FetchLength: expected 1 to 1048576"),
        (pb.ReplicateRequest(content=b"x", registers=pb.LabelSet()), "Registers: expected Content"),
        (pb.ListRequest(selector=pb.LabelSelector(exclude=UNSORTED)), "Selector.Exclude.Labels[1]"),
        (listing("prefix=a"), "Selector: label prefix must end in '/' (a)"),
        (listing("prefix!=a"), "Selector: label prefix must end in '/' (a)"),
        (listing("", watch_resume=HEADER), "WatchResume: unexpected without Watch"),
        (listing("", watch=True, watch_resume=NO_ETCD), "WatchResume.Etcd.ClusterId"),
        (apply({}), "Changes[0]: expected exactly one of Upsert and Delete"),
        (
            apply({"upsert": SPEC, "delete": "b/journal"}),
            "Changes[0]: expected exactly one of Upsert and Delete",
        ),
        (apply({"upsert": pb.JournalSpec()}), "Changes[0].Upsert.Name: invalid length (0;"),
        (apply({"delete": "x", "expect_mod_revision": 1}), "Changes[0].Delete: invalid length (1;"),
        (
            apply({"upsert": SPEC, "expect_mod_revision": -2}),
            "Changes[0].ExpectModRevision: invalid value (-2; expected >= 0)",
        ),
        (
            apply({"delete": "b/journal"}),
            "Changes[0].ExpectModRevision: invalid value (0; expected >= 1)",
        ),
        (
            apply({"upsert": SPEC}, {"delete": "a/journal", "expect_mod_revision": 1}),
            "Changes[1]: journal a/journal is changed twice in one request",
        ),
        (paging(journal="a/journal;meta"), "Journal: not a valid token"),
        (paging(header=NO_ETCD), "Header.Etcd.ClusterId"),
        (paging(begin_mod_time=-1), "BeginModTime: invalid value (-1;"),
        (paging(begin_mod_time=5, end_mod_time=4), "EndModTime: invalid value (4; expected >= 5)"),
        (paging(next_page_token=-1), "NextPageToken: invalid value (-1;"),
        (paging(page_limit=-1), "PageLimit: invalid value (-1;"),
        (paging(page_limit=10_001), "PageLimit: invalid value (10001;"),
        (paging(signatureTTL=Duration()), "SignatureTTL: expected a positive duration"),
        (paging(signatureTTL=Duration(seconds=-1)), "SignatureTTL: expected a positive duration"),
        (paging(signatureTTL=Duration(seconds=1, nanos=-1)), "SignatureTTL: not a duration"),
        (health(fragment_store=""), "FragmentStore: not an absolute URL"),
        (health(fragment_store="file:///../"), "FragmentStore: path may not hold"),
        (health(check_delete_prefix="../a"), "CheckDeletePrefix: must be a relative, clean path"),
        (health(check_delete_prefix="/a"), "CheckDeletePrefix: must be a relative, clean path"),
    ],
)
def test_bad_requests_are_refused_with_the_field_named(message: Any, reason: str) -> None:
    with pytest.raises(InvalidField) as refused:
        check(message)
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize("later", [pb.AppendRequest(content=b"x"), pb.AppendRequest()])
def test_after_the_first_an_append_sends_content_or_the_commit_mark(
    later: pb.AppendRequest,
) -> None:
    messages.check_append_request(later, first=False)


@pytest.mark.parametrize(
    "fields",
    [
        {"journal": "a/journal"},
        {"header": HEADER},
        {"do_not_proxy": True},
        {"offset": 5},
        {"check_registers": pb.LabelSelector()},
        {"union_registers": pb.LabelSet()},
        {"suspend": 1},
        {"min_etcd_revision": 1},
    ],
)
def test_after_the_first_an_append_sends_nothing_else(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match="expected Content chunk"):
        messages.check_append_request(pb.AppendRequest(content=b"x", **fields), first=False)


def test_the_first_message_to_a_replica_has_a_header() -> None:
    messages.check_replicate_request(propose(header=HEADER, acknowledge=True), first=True)
    with pytest.raises(InvalidField, match=r"^Header: expected Header in the first message"):
        messages.check_replicate_request(propose(), first=True)


def test_the_old_prefix_label_selects_by_the_beginning_of_the_name() -> None:
    selector = messages.list_selector(listing("prefix=a/,team=x,prefix!=a/b/"))
    assert selector == LabelSelector.parse("name:prefix=a/,team=x,name:prefix!=a/b/")
    assert selector.matches(LabelSet.of({"name": "a/c", "team": "x"}))
    assert not selector.matches(LabelSet.of({"name": "a/b/c", "team": "x"}))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": 99}, "Status: unknown Status (99)"),
        ({"header": NO_ETCD}, "Header.Etcd.ClusterId"),
        ({"commit": None}, "Commit: expected Commit with status OK"),
        ({"commit": pb.Fragment()}, "Commit.Journal"),
        ({"registers": None}, "Registers: expected Registers with status OK"),
        (
            {"status": pb.REGISTER_MISMATCH, "registers": None},
            "Registers: expected Registers with status REGISTER_MISMATCH",
        ),
        ({"registers": UNSORTED}, "Registers.Labels[1]"),
    ],
)
def test_an_append_answer_keeps_its_promises(fields: dict[str, Any], reason: str) -> None:
    good: dict[str, Any] = {"header": HEADER, "commit": FRAGMENT, "registers": pb.LabelSet()}
    assert messages.check_append_response(pb.AppendResponse(**good)) is Status.OK
    with pytest.raises(InvalidField) as refused:
        messages.check_append_response(pb.AppendResponse(**{**good, **fields}))
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize(
    ("fields", "first", "reason"),
    [
        ({"fragment": FRAGMENT, "offset": 5, "write_head": 9}, True, "Header."),
        ({"fragment": FRAGMENT, "offset": 4, "write_head": 9}, False, "Fragment: expected begin"),
        ({"fragment": FRAGMENT, "offset": 9, "write_head": 9}, False, "Fragment: expected begin"),
        ({"fragment": FRAGMENT, "offset": 5, "write_head": 8}, False, "Fragment: expected begin"),
        ({"content": b"x", "fragment": FRAGMENT}, False, "Content: unexpected fragment"),
        ({"content": b"x", "header": HEADER}, True, "Content: unexpected header"),
        ({"content": b"x", "offset": -1}, False, "Offset: invalid value (-1;"),
        ({}, False, "Fragment: expected Fragment or Content with status OK"),
    ],
)
def test_a_read_answer_keeps_its_promises(fields: dict[str, Any], first: bool, reason: str) -> None:
    with pytest.raises(InvalidField) as refused:
        messages.check_read_response(pb.ReadResponse(**fields), first=first)
    assert str(refused.value).startswith(reason)


def test_a_listing_keeps_its_promises() -> None:
    journal = pb.ListResponse.Journal(spec=SPEC, mod_revision=3, route=pb.Route(primary=-1))
    messages.check_list_response(pb.ListResponse(journals=[journal]), first=False)
    with pytest.raises(InvalidField, match=r"^Header\."):
        messages.check_list_response(pb.ListResponse(), first=True)
    good: dict[str, Any] = {"spec": SPEC, "mod_revision": 3, "route": pb.Route(primary=-1)}
    for name, value, reason in [
        ("mod_revision", 0, r"^Journals\[0\]\.ModRevision"),
        ("route", pb.Route(), r"^Journals\[0\]\.Route\.Primary"),
        ("spec", pb.JournalSpec(), r"^Journals\[0\]\.Spec\.Name"),
    ]:
        bad = pb.ListResponse.Journal(**{**good, name: value})
        with pytest.raises(InvalidField, match=reason):
            messages.check_list_response(pb.ListResponse(journals=[bad]), first=False)


def test_a_replica_that_disagrees_says_with_what() -> None:
    with pytest.raises(InvalidField, match=r"^Header: expected Header with status WRONG_ROUTE"):
        messages.check_replicate_response(pb.ReplicateResponse(status=pb.WRONG_ROUTE))
    mismatch: dict[str, Any] = {
        "status": pb.PROPOSAL_MISMATCH,
        "fragment": FRAGMENT,
        "registers": pb.LabelSet(),
    }
    messages.check_replicate_response(pb.ReplicateResponse(**mismatch))
    for name in ("fragment", "registers"):
        with pytest.raises(InvalidField, match=rf"^{name.capitalize()}: expected"):
            messages.check_replicate_response(pb.ReplicateResponse(**{**mismatch, name: None}))


def test_a_page_of_fragments_keeps_its_promises() -> None:
    page = pb.FragmentsResponse(
        header=HEADER, fragments=[pb.FragmentsResponse._Fragment(spec=pb.Fragment())]
    )
    with pytest.raises(InvalidField, match=r"^Fragments\[0\]\.Spec\.Journal"):
        messages.check_fragments_response(page)
    with pytest.raises(InvalidField, match=r"^NextPageToken"):
        messages.check_fragments_response(pb.FragmentsResponse(header=HEADER, next_page_token=-1))


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (messages.check_append_response, pb.AppendResponse),
        (messages.check_apply_response, pb.ApplyResponse),
        (messages.check_fragments_response, pb.FragmentsResponse),
        (messages.check_store_health_response, pb.FragmentStoreHealthResponse),
        (lambda message: messages.check_list_response(message, True), pb.ListResponse),
        (lambda message: messages.check_read_response(message, True), pb.ReadResponse),
    ],
    ids=["append", "apply", "fragments", "health", "list", "read"],
)
def test_an_answer_without_a_whole_header_or_of_an_unknown_status_is_refused(
    check: Callable[[Any], Status], kind: Any
) -> None:
    assert check(kind(status=pb.NOT_ALLOWED, header=HEADER)) is Status.NOT_ALLOWED
    for header in (None, NO_ETCD, pb.Header(etcd=ETCD), pb.Header()):
        with pytest.raises(InvalidField, match=r"^Header\."):
            check(kind(status=pb.NOT_ALLOWED, header=header))
    for number in (1, 2, 3, 4):
        partial = pb.Header(route=pb.Route(primary=-1), etcd=ETCD)
        name = ETCD.DESCRIPTOR.fields_by_number[number].name
        partial.etcd.ClearField(name)
        with pytest.raises(InvalidField, match=r"^Header\.Etcd\."):
            check(kind(status=pb.NOT_ALLOWED, header=partial))
    with pytest.raises(InvalidField, match=r"^Status: unknown Status \(16\)"):
        check(kind(status=16, header=HEADER))


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_what_was_refused_needs_neither_commit_nor_content(status: Status) -> None:
    registers = pb.LabelSet() if status is Status.REGISTER_MISMATCH else None
    refused = pb.AppendResponse(
        status=messages.status_to_pb(status), header=HEADER, registers=registers
    )
    assert messages.check_append_response(refused) is status
    unread = pb.ReadResponse(
        status=messages.status_to_pb(status), header=HEADER, offset=5, write_head=9
    )
    assert messages.check_read_response(unread, first=True) is status


def test_a_prefix_in_registers_is_refused() -> None:
    """It would never match anything, since registers are compared by value."""
    prefixed = messages.labels_to_pb(LabelSet((Label("aa", "b", prefix=True),)))
    with pytest.raises(InvalidField, match=r"^UnionRegisters\.Labels\[0\]\.Prefix"):
        check(append(union_registers=prefixed))
