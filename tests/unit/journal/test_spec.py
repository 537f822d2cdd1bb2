"""Journal specs, brokers, routes and headers: every rule, by table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from windrow.journal.errors import InvalidField
from windrow.journal.labels import Label, LabelSet
from windrow.journal.process import grpc_address, valid_endpoint
from windrow.journal.spec import (
    INCARNATION_LABEL,
    BrokerSpec,
    Codec,
    EtcdHeader,
    Flag,
    FragmentSpec,
    Header,
    JournalSpec,
    ProcessId,
    Route,
    Suspend,
    SuspendLevel,
    with_incarnation,
)
from windrow.journal.store_url import valid_store

FRAGMENT = FragmentSpec(1 << 20, Codec.GZIP, ("s3://bucket/path/",), 60.0)
SPEC = JournalSpec("orders/eu", 3, LabelSet.of({"team": "sales"}), FRAGMENT)


def refusal(**changes: Any) -> str:
    """Why the good spec is refused once ``changes`` are made."""
    with pytest.raises(InvalidField) as refused:
        replace(SPEC, **changes).validate()
    return str(refused.value)


def fragment_refusal(**changes: Any) -> str:
    return refusal(fragment=replace(FRAGMENT, **changes))


def test_a_good_spec_passes() -> None:
    SPEC.validate()


@pytest.mark.parametrize("replication", [1, 2, 3, 4, 5])
def test_replication_may_be_one_to_five(replication: int) -> None:
    replace(SPEC, replication=replication).validate()


@pytest.mark.parametrize("replication", [-1, 0, 6])
def test_another_replication_is_refused(replication: int) -> None:
    assert refusal(replication=replication) == (
        f"Replication: invalid value ({replication}; expected 1 <= value <= 5)"
    )


def test_a_spec_is_named_without_meta() -> None:
    assert refusal(name="orders/eu;meta") == "Name: not a valid token (orders/eu;meta)"
    assert refusal(name="/orders") == "Name: cannot begin with '/' (/orders)"


@pytest.mark.parametrize(
    "changes",
    [
        {"length": 1 << 10},
        {"length": 1 << 34},
        {"codec": Codec.GZIP_OFFLOAD_DECOMPRESSION},
        {"codec": Codec.GZIP_OFFLOAD_DECOMPRESSION, "stores": ()},
        {"codec": Codec.GZIP_OFFLOAD_DECOMPRESSION, "stores": ("gs://b/", "file:///a/")},
        {"stores": ()},
        {"refresh_interval": 1.0},
        {"refresh_interval": 24 * 3600.0},
        {"retention": -1.0},
        {"retention": 1e9},
        {"flush_interval": 60.0},
        {"path_postfix_template": "{{ not even evaluated }}"},
    ],
)
def test_what_fragments_may_be(changes: dict[str, Any]) -> None:
    replace(SPEC, fragment=replace(FRAGMENT, **changes)).validate()


@pytest.mark.parametrize(
    ("changes", "context"),
    [
        ({"length": (1 << 10) - 1}, "Fragment.Length: invalid value (1023;"),
        ({"length": (1 << 34) + 1}, "Fragment.Length: invalid value"),
        ({"codec": Codec.INVALID}, "Fragment.CompressionCodec: is not set"),
        (
            {"codec": Codec.GZIP_OFFLOAD_DECOMPRESSION, "stores": ("file:///a/",)},
            "Fragment.CompressionCodec: GZIP_OFFLOAD_DECOMPRESSION needs a store other than file",
        ),
        ({"stores": ("s3://ok/", "nope")}, "Fragment.Stores[1]: not an absolute URL (nope)"),
        ({"refresh_interval": 0.999}, "Fragment.RefreshInterval: invalid value (0.999;"),
        ({"refresh_interval": 86400.5}, "Fragment.RefreshInterval"),
        ({"refresh_interval": float("nan")}, "Fragment.RefreshInterval"),
        ({"retention": float("inf")}, "Fragment.Retention"),
        ({"flush_interval": 59.9}, "Fragment.FlushInterval: invalid value (59.9;"),
        ({"flush_interval": -60.0}, "Fragment.FlushInterval"),
    ],
)
def test_what_fragments_may_not_be(changes: dict[str, Any], context: str) -> None:
    assert fragment_refusal(**changes).startswith(context)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([("name", "x")], "Labels: label name is reserved for selectors"),
        ([("prefix", "x/")], "Labels: label prefix is reserved for selectors"),
        ([("content-type", "text/")], "Labels: content-type is not a media type (text/)"),
        ([("content-type", "")], "Labels: content-type is not a media type ()"),
        ([("content-type", "a/b/c")], "Labels: content-type is not a media type (a/b/c)"),
        (
            [("content-type", "a/b"), ("content-type", "a/c")],
            "Labels: label content-type may have one value only ('a/b', 'a/c')",
        ),
        (
            [("app.gazette.dev/message-type", "T")],
            "Labels: label app.gazette.dev/message-type needs a label content-type",
        ),
        (
            [("content-type", "a/b"), ("app.gazette.dev/message-subtype", "T")],
            "Labels: label app.gazette.dev/message-subtype"
            " needs a label app.gazette.dev/message-type",
        ),
        ([("x", "1")], "Labels.Labels[0].Name: invalid length (1; expected 2 <= length <= 64)"),
    ],
)
def test_labels_that_a_journal_may_not_have(labels: list[tuple[str, str]], reason: str) -> None:
    assert refusal(labels=LabelSet.of(labels)) == reason


@pytest.mark.parametrize("name", ["instance", "managed-by", "region"])
def test_conventional_labels_have_one_value(name: str) -> None:
    full = f"app.gazette.dev/{name}"
    replace(SPEC, labels=LabelSet.of([(full, "1")])).validate()
    assert f"label {full} may have one value only" in refusal(
        labels=LabelSet.of([(full, "1"), (full, "2")])
    )


def test_a_full_set_of_message_labels_passes() -> None:
    labels = {
        "content-type": "application/x-ndjson",
        "app.gazette.dev/message-type": "Order",
        "app.gazette.dev/message-subtype": "Placed",
    }
    replace(SPEC, labels=LabelSet.of(labels)).validate()


@pytest.mark.parametrize(
    ("flags", "readable", "writable"),
    [
        (Flag.NOT_SPECIFIED, True, True),
        (Flag.O_RDONLY, True, False),
        (Flag.O_WRONLY, False, True),
        (Flag.O_RDWR, True, True),
    ],
)
def test_what_flags_allow(flags: Flag, readable: bool, writable: bool) -> None:
    spec = replace(SPEC, flags=flags)
    spec.validate()
    assert (spec.readable, spec.writable) == (readable, writable)


@pytest.mark.parametrize("flags", [3, 5, 6, 7, 8])
def test_flags_do_not_combine(flags: int) -> None:
    assert refusal(flags=flags) == f"Flags: invalid flags ({flags}; expected 0, 1, 2 or 4)"


def test_neither_rate_nor_suspension_is_negative() -> None:
    assert refusal(max_append_rate=-1).startswith("MaxAppendRate: invalid value (-1;")
    assert refusal(suspend=Suspend(offset=-1)).startswith("Suspend.Offset: invalid value (-1;")


@pytest.mark.parametrize(
    ("level", "cap", "desired"),
    [
        (SuspendLevel.NONE, 9, 3),
        (SuspendLevel.NONE, 2, 2),
        (SuspendLevel.PARTIAL, 9, 1),
        (SuspendLevel.FULL, 9, 0),
    ],
)
def test_desired_replication(level: SuspendLevel, cap: int, desired: int) -> None:
    assert replace(SPEC, suspend=Suspend(level)).desired_replication(cap) == desired


def test_a_journal_is_matched_on_its_name_too() -> None:
    assert SPEC.labels_with_name() == LabelSet.of({"name": "orders/eu", "team": "sales"})


def test_an_incarnation_tells_two_journals_of_one_name_apart() -> None:
    first, second = with_incarnation(SPEC, "5f1c"), with_incarnation(SPEC, "a07e")
    assert (first.incarnation, second.incarnation, SPEC.incarnation) == ("5f1c", "a07e", None)
    assert with_incarnation(first, "a07e") == second
    assert second.labels.values(INCARNATION_LABEL) == ("a07e",)
    second.validate()


def test_a_label_marks_a_sequenced_journal() -> None:
    assert not SPEC.is_sequenced
    assert replace(SPEC, labels=LabelSet.of({"windrow.dev/sequenced": ""})).is_sequenced


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/",
        "s3://bucket/a/b/?profile=p&endpoint=http://127.0.0.1:9000",
        "gs://bucket/a/",
        "azure://account/container/",
        "azure-ad://tenant/account/container/",
        "file:///",
        "file:///a/b/?find=x&replace=y",
    ],
)
def test_urls_that_name_a_store(url: str) -> None:
    assert valid_store(url) == url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "not an absolute URL"),
        ("/a/b/", "not an absolute URL"),
        ("file:/a/", "not an absolute URL"),
        ("http://host/a/", "unknown scheme 'http'"),
        ("s3://bucket/a", "path must end in '/'"),
        ("s3://bucket", "path must end in '/'"),
        ("s3:///a/", "a s3 store needs a host"),
        ("gs:///a/", "a gs store needs a host"),
        ("azure:///a/", "a azure store needs a host"),
        ("azure-ad://tenant/account/", "needs a tenant, an account and a container"),
        ("azure-ad:///account/container/", "needs a tenant, an account and a container"),
        ("file://host/a/", "a file store has no host"),
        ("file:///a/../../etc/", "path may not hold '.' or '..'"),
        ("file:///a/%2e%2e/etc/", "path may not hold '.' or '..'"),
        ("file:///a/./b/", "path may not hold '.' or '..'"),
        ("file:///a\n/b/", "not a URL"),
        ("file:///a b/", "not a URL"),
        ("s3://[bad/", "not a URL"),
        ("s3://host:port/", "not a URL"),
    ],
)
def test_urls_that_name_no_store(url: str, reason: str) -> None:
    with pytest.raises(InvalidField) as refused:
        valid_store(url)
    assert str(refused.value).startswith(f"Store: {reason}") or reason in str(refused.value)


A, B, C = ProcessId("zone-a", "broker-1"), ProcessId("zone-a", "broker-2"), ProcessId("b", "aaaa")


def test_processes_are_ordered_by_zone_then_suffix() -> None:
    assert sorted([B, A, C]) == [C, A, B]
    assert str(A) == "zone-a#broker-1"
    assert ProcessId.parse("zone-a#broker-1") == A


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zone", "ProcessId: expected zone#suffix (zone)"),
        ("#suffix", "ProcessId.Zone: invalid length (0; expected 1 <= length <= 32)"),
        ("z" * 33 + "#suffix", "ProcessId.Zone: invalid length (33; expected 1 <= length <= 32)"),
        ("zone#abc", "ProcessId.Suffix: invalid length (3; expected 4 <= length <= 128)"),
        (
            "zone#" + "s" * 129,
            "ProcessId.Suffix: invalid length (129; expected 4 <= length <= 128)",
        ),
        ("zone#abc#def", "ProcessId.Suffix: not a valid token (abc#def)"),
        ("zo=ne#abcd", "ProcessId.Zone: not a valid token (zo=ne)"),
    ],
)
def test_a_bad_process_id_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidField) as refused:
        ProcessId.parse(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://host:8080", "host:8080"),
        ("http://host", "host:80"),
        ("https://host/path", "host:443"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("unix://host/run/broker.sock", "unix:/run/broker.sock"),
    ],
)
def test_where_an_endpoint_is_dialled(endpoint: str, address: str) -> None:
    assert valid_endpoint(endpoint) == endpoint
    assert grpc_address(endpoint) == address


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "host:80",
        "http:///path",
        "http://:80/",
        "ftp://host/",
        "unix:///a",
        "unix://host",
        "//h",
    ],
)
def test_an_endpoint_is_an_absolute_url_with_a_host(endpoint: str) -> None:
    with pytest.raises(InvalidField, match="Endpoint"):
        valid_endpoint(endpoint)


def test_a_broker_has_an_id_an_endpoint_and_a_limit() -> None:
    BrokerSpec(A, "http://host:80", 1 << 17).validate()
    for broker, context in [
        (BrokerSpec(ProcessId("", "abcd"), "http://host:80"), "ProcessSpec.Id.Zone: "),
        (BrokerSpec(A, "host"), "ProcessSpec.Endpoint: "),
        (BrokerSpec(A, "http://host:80", (1 << 17) + 1), "JournalLimit: "),
        (BrokerSpec(A, "http://host:80", -1), "JournalLimit: "),
    ]:
        with pytest.raises(InvalidField) as refused:
            broker.validate()
        assert str(refused.value).startswith(context)


@pytest.mark.parametrize(
    "route",
    [
        Route.NONE,
        Route((A, B), 1),
        Route((A,), -1),
        Route((A, B), 0, ("http://h:1", "http://h:2")),
        Route((A, B), 0, ("http://h:1", "")),
    ],
)
def test_a_good_route_passes(route: Route) -> None:
    route.validate()


@pytest.mark.parametrize(
    ("route", "context"),
    [
        (Route((), 0), "Primary: invalid primary (0; expected -1 <= primary < 0)"),
        (Route((A, B), 2), "Primary: invalid primary (2;"),
        (Route((A, B), -2), "Primary: invalid primary (-2;"),
        (Route((B, A), 0), "Members[1]: must sort after its predecessor"),
        (Route((A, A), 0), "Members[1]: must sort after its predecessor"),
        (Route((ProcessId("", ""),), 0), "Members[0].Zone: "),
        (Route((A, B), 0, ("http://h:1",)), "Endpoints: expected none or one per member (1 for 2)"),
        (Route((), -1, ("http://h:1",)), "Endpoints: "),
        (Route((A,), 0, ("h:1",)), "Endpoints[0]: "),
    ],
)
def test_a_bad_route_is_refused(route: Route, context: str) -> None:
    with pytest.raises(InvalidField) as refused:
        route.validate()
    assert str(refused.value).startswith(context)


def test_routes_are_equivalent_wherever_their_members_listen() -> None:
    route = Route((A, B), 0, ("http://h:1", "http://h:2"))
    assert route.equivalent(route.without_endpoints())
    assert not route.equivalent(Route((A, B), 1))
    assert not route.equivalent(Route((A,), 0))
    assert (route.primary_id, Route.NONE.primary_id) == (A, None)
    assert route.endpoint_of(B) == "http://h:2"
    assert route.endpoint_of(C) is None
    assert route.without_endpoints().endpoint_of(A) is None


ETCD = EtcdHeader(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("field", "context"),
    [
        ("cluster_id", "Etcd.ClusterId"),
        ("member_id", "Etcd.MemberId"),
        ("revision", "Etcd.Revision"),
        ("raft_term", "Etcd.RaftTerm"),
    ],
)
def test_no_part_of_an_etcd_header_is_zero(field: str, context: str) -> None:
    Header(None, Route.NONE, ETCD).validate()
    etcd = replace(ETCD, **{field: 0})
    with pytest.raises(InvalidField) as refused:
        Header(A, Route.NONE, etcd).validate()
    assert str(refused.value) == f"{context}: expected a positive number (have 0)"


def test_a_header_names_a_valid_process_and_route() -> None:
    with pytest.raises(InvalidField, match=r"^ProcessId\.Suffix"):
        Header(ProcessId("zone", ""), Route.NONE, ETCD).validate()
    with pytest.raises(InvalidField, match=r"^Route\.Primary"):
        Header(None, Route((), 0), ETCD).validate()


def test_labels_are_checked_in_their_order() -> None:
    labels = LabelSet((Label("bb"), Label("aa")))
    assert refusal(labels=labels).startswith("Labels.Labels[1]: must sort after")
