"""Protobuf messages into the journal's own types, and back.

``*_from_pb`` and ``*_to_pb`` translate a message and check no more than they must: enumerations
and durations, which our types cannot hold if they are wrong. ``decode_*`` and ``encode_*`` do so
from and to bytes as kept in etcd, and validate.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from fractions import Fraction
from typing import TypeVar, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message

from windrow.journal.codec import Codec
from windrow.journal.errors import InvalidField, field
from windrow.journal.fragment import ZERO_SUM, Fragment
from windrow.journal.labels import Label, LabelSelector, LabelSet
from windrow.journal.process import BrokerSpec, EtcdHeader, Header, ProcessId, Route
from windrow.journal.spec import FragmentSpec, JournalSpec, Suspend, SuspendControl, SuspendLevel
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

_SUM_WORDS = struct.Struct(">QQI")
_NANOS = 10**9
_MAX_DURATION_NANOS = 2**63 - 1

EnumT = TypeVar("EnumT", bound=IntEnum)
MessageT = TypeVar("MessageT", bound=Message)


def status_from_pb(status: int) -> Status:
    """The status of an answer; one that we do not know is refused, not guessed."""
    return _enum(Status, status, "Status")


def status_to_pb(status: Status) -> pb.Status:
    """``status`` as a message's field takes it."""
    return cast("pb.Status", int(status))


def codec_from_pb(codec: int) -> Codec:
    """The codec of a message's field."""
    return _enum(Codec, codec, "CompressionCodec")


def codec_to_pb(codec: Codec) -> pb.CompressionCodec:
    """``codec`` as a message's field takes it."""
    return cast("pb.CompressionCodec", int(codec))


def suspend_control_from_pb(control: int) -> SuspendControl:
    """What an append request says about suspension."""
    return _enum(SuspendControl, control, "Suspend")


def suspend_control_to_pb(control: SuspendControl) -> pb.AppendRequest.Suspend:
    """``control`` as an append request's field takes it."""
    return cast("pb.AppendRequest.Suspend", int(control))


def labels_from_pb(message: pb.LabelSet) -> LabelSet:
    """The labels in the order of the message."""
    return LabelSet(tuple(Label(label.name, label.value, label.prefix) for label in message.labels))


def labels_to_pb(labels: LabelSet) -> pb.LabelSet:
    """The message of a label set, which counts as present even if it is empty."""
    return pb.LabelSet(
        labels=[
            pb.Label(name=label.name, value=label.value, prefix=label.prefix) for label in labels
        ]
    )


def selector_from_pb(message: pb.LabelSelector) -> LabelSelector:
    """The selector of a message."""
    return LabelSelector(labels_from_pb(message.include), labels_from_pb(message.exclude))


def selector_to_pb(selector: LabelSelector) -> pb.LabelSelector:
    """The message of a selector."""
    return pb.LabelSelector(
        include=labels_to_pb(selector.include), exclude=labels_to_pb(selector.exclude)
    )


def duration_from_pb(message: Duration, context: str) -> float:
    """Seconds of a duration.

    Raises:
        InvalidField: Its parts contradict each other, or it does not fit 64 bits of nanoseconds.
    """
    total = message.seconds * _NANOS + message.nanos
    has_odd_nanos = abs(message.nanos) >= _NANOS or message.seconds * message.nanos < 0
    if has_odd_nanos or abs(total) > _MAX_DURATION_NANOS:
        raise InvalidField(
            context, f"not a duration ({message.seconds} seconds, {message.nanos} nanoseconds)"
        )
    return total / _NANOS


def duration_to_pb(seconds: float) -> Duration:
    """The duration of ``seconds``, to the nanosecond."""
    nanos = round(Fraction(seconds) * _NANOS)
    # The longest one, as a float, lies a little beyond it.
    nanos = max(-_MAX_DURATION_NANOS, min(nanos, _MAX_DURATION_NANOS))
    whole = abs(nanos) // _NANOS * (1 if nanos >= 0 else -1)
    return Duration(seconds=whole, nanos=nanos - whole * _NANOS)


def spec_from_pb(message: pb.JournalSpec) -> JournalSpec:
    """The journal spec of a message."""
    with field("Suspend"):
        level = _enum(SuspendLevel, message.suspend.level, "Level")
    with field("Fragment"):
        fragment = _fragment_spec_from_pb(message.fragment)
    return JournalSpec(
        name=message.name,
        replication=message.replication,
        labels=labels_from_pb(message.labels),
        fragment=fragment,
        flags=message.flags,
        max_append_rate=message.max_append_rate,
        suspend=Suspend(level, message.suspend.offset),
    )


def spec_to_pb(spec: JournalSpec) -> pb.JournalSpec:
    """The message of a journal spec."""
    suspend = None
    if spec.suspend != Suspend():
        level = cast("pb.JournalSpec.Suspend.Level", int(spec.suspend.level))
        suspend = pb.JournalSpec.Suspend(level=level, offset=spec.suspend.offset)
    return pb.JournalSpec(
        name=spec.name,
        replication=spec.replication,
        labels=labels_to_pb(spec.labels),
        fragment=_fragment_spec_to_pb(spec.fragment),
        flags=spec.flags,
        max_append_rate=spec.max_append_rate,
        suspend=suspend,
    )


def _fragment_spec_from_pb(message: pb.JournalSpec.Fragment) -> FragmentSpec:
    return FragmentSpec(
        length=message.length,
        codec=codec_from_pb(message.compression_codec),
        stores=tuple(message.stores),
        refresh_interval=duration_from_pb(message.refresh_interval, "RefreshInterval"),
        retention=duration_from_pb(message.retention, "Retention"),
        flush_interval=duration_from_pb(message.flush_interval, "FlushInterval"),
        path_postfix_template=message.path_postfix_template,
    )


def _fragment_spec_to_pb(fragment: FragmentSpec) -> pb.JournalSpec.Fragment:
    return pb.JournalSpec.Fragment(
        length=fragment.length,
        compression_codec=codec_to_pb(fragment.codec),
        stores=fragment.stores,
        refresh_interval=duration_to_pb(fragment.refresh_interval),
        retention=duration_to_pb(fragment.retention),
        flush_interval=duration_to_pb(fragment.flush_interval),
        path_postfix_template=fragment.path_postfix_template,
    )


def sum_from_pb(message: pb.SHA1Sum) -> bytes:
    """The twenty bytes of a SHA-1 sent as three big-endian words."""
    return _SUM_WORDS.pack(message.part1, message.part2, message.part3)


def sum_to_pb(digest: bytes) -> pb.SHA1Sum:
    """The three words of a SHA-1."""
    part1, part2, part3 = _SUM_WORDS.unpack(digest)
    return pb.SHA1Sum(part1=part1, part2=part2, part3=part3)


def fragment_from_pb(message: pb.Fragment) -> Fragment:
    """The fragment of a message."""
    return Fragment(
        journal=message.journal,
        begin=message.begin,
        end=message.end,
        sum=sum_from_pb(message.sum) if message.HasField("sum") else ZERO_SUM,
        codec=codec_from_pb(message.compression_codec),
        backing_store=message.backing_store,
        mod_time=message.mod_time,
        path_postfix=message.path_postfix,
    )


def fragment_to_pb(fragment: Fragment) -> pb.Fragment:
    """The message of a fragment."""
    return pb.Fragment(
        journal=fragment.journal,
        begin=fragment.begin,
        end=fragment.end,
        sum=sum_to_pb(fragment.sum),
        compression_codec=codec_to_pb(fragment.codec),
        backing_store=fragment.backing_store,
        mod_time=fragment.mod_time,
        path_postfix=fragment.path_postfix,
    )


def process_id_from_pb(message: pb.ProcessSpec.ID) -> ProcessId:
    """The process id of a message."""
    return ProcessId(message.zone, message.suffix)


def process_id_to_pb(process: ProcessId) -> pb.ProcessSpec.ID:
    """The message of a process id."""
    return pb.ProcessSpec.ID(zone=process.zone, suffix=process.suffix)


def broker_spec_from_pb(message: pb.BrokerSpec) -> BrokerSpec:
    """The broker spec of a message."""
    return BrokerSpec(
        id=process_id_from_pb(message.process_spec.id),
        endpoint=message.process_spec.endpoint,
        journal_limit=message.journal_limit,
        exiting=message.exiting,
    )


def broker_spec_to_pb(spec: BrokerSpec) -> pb.BrokerSpec:
    """The message of a broker spec."""
    return pb.BrokerSpec(
        process_spec=pb.ProcessSpec(id=process_id_to_pb(spec.id), endpoint=spec.endpoint),
        journal_limit=spec.journal_limit,
        exiting=spec.exiting,
    )


def route_from_pb(message: pb.Route) -> Route:
    """The route of a message."""
    members = tuple(process_id_from_pb(member) for member in message.members)
    return Route(members, message.primary, tuple(message.endpoints))


def route_to_pb(route: Route) -> pb.Route:
    """The message of a route."""
    return pb.Route(
        members=[process_id_to_pb(member) for member in route.members],
        primary=route.primary,
        endpoints=route.endpoints,
    )


def header_from_pb(message: pb.Header) -> Header:
    """The header of a message; an empty process id means any process."""
    process = process_id_from_pb(message.process_id)
    etcd = message.etcd
    return Header(
        process_id=process if process.zone or process.suffix else None,
        route=route_from_pb(message.route),
        etcd=EtcdHeader(etcd.cluster_id, etcd.member_id, etcd.revision, etcd.raft_term),
    )


def header_to_pb(header: Header) -> pb.Header:
    """The message of a header."""
    etcd = header.etcd
    return pb.Header(
        process_id=process_id_to_pb(header.process_id or ProcessId("", "")),
        route=route_to_pb(header.route),
        etcd=pb.Header.Etcd(
            cluster_id=etcd.cluster_id,
            member_id=etcd.member_id,
            revision=etcd.revision,
            raft_term=etcd.raft_term,
        ),
    )


def encode_spec(spec: JournalSpec) -> bytes:
    """The bytes of a journal spec, as kept in etcd."""
    return spec_to_pb(spec).SerializeToString(deterministic=True)


def decode_spec(data: bytes) -> JournalSpec:
    """The journal spec of bytes.

    Raises:
        InvalidField: They are not a message, or it is not valid.
    """
    with field("JournalSpec"):
        spec = spec_from_pb(_decoded(pb.JournalSpec(), data))
        spec.validate()
    return spec


def encode_broker_spec(spec: BrokerSpec) -> bytes:
    """The bytes of a broker spec, as kept in etcd."""
    return broker_spec_to_pb(spec).SerializeToString(deterministic=True)


def decode_broker_spec(data: bytes) -> BrokerSpec:
    """The broker spec of bytes.

    Raises:
        InvalidField: They are not a message, or it is not valid.
    """
    with field("BrokerSpec"):
        spec = broker_spec_from_pb(_decoded(pb.BrokerSpec(), data))
        spec.validate()
    return spec


def encode_route(route: Route) -> bytes:
    """The bytes of a route, as kept in etcd."""
    return route_to_pb(route).SerializeToString(deterministic=True)


def decode_route(data: bytes) -> Route:
    """The route of bytes.

    Raises:
        InvalidField: They are not a message, or it is not valid.
    """
    with field("Route"):
        route = route_from_pb(_decoded(pb.Route(), data))
        route.validate()
    return route


def _decoded(message: MessageT, data: bytes) -> MessageT:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise InvalidField(
            "", f"not a message of this kind ({len(data)} bytes: {error})"
        ) from error
    return message


def _enum(kind: type[EnumT], number: int, context: str) -> EnumT:
    try:
        return kind(number)
    except ValueError as error:
        raise InvalidField(context, f"unknown {kind.__name__} ({number})") from error
