"""Whatever arrives: it decodes and passes, or it is refused in one of two known ways."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.journal.test_golden_bytes import GOLDEN, committed
from tests.integration.journal.wire_by_hand import fixed32, fixed64, num, sub
from windrow.journal import messages
from windrow.journal.errors import InvalidField
from windrow.journal.names import valid_journal
from windrow.journal.wire import protocol_pb2 as pb

CHECKS: list[tuple[type[Message], Callable[[Any], object]]] = [
    (pb.AppendRequest, lambda message: messages.check_append_request(message, first=True)),
    (pb.AppendRequest, lambda message: messages.check_append_request(message, first=False)),
    (pb.ReadRequest, messages.check_read_request),
    (pb.ReplicateRequest, lambda message: messages.check_replicate_request(message, first=True)),
    (pb.ReplicateRequest, messages.check_replicate_request),
    (pb.ListRequest, messages.check_list_request),
    (pb.ApplyRequest, messages.check_apply_request),
    (pb.FragmentsRequest, messages.check_fragments_request),
    (pb.FragmentStoreHealthRequest, messages.check_store_health_request),
    (pb.AppendResponse, messages.check_append_response),
    (pb.ReadResponse, lambda message: messages.check_read_response(message, first=True)),
    (pb.ReadResponse, lambda message: messages.check_read_response(message, first=False)),
    (pb.ReplicateResponse, messages.check_replicate_response),
    (pb.ListResponse, lambda message: messages.check_list_response(message, first=True)),
    (pb.ListResponse, lambda message: messages.check_list_response(message, first=False)),
    (pb.ApplyResponse, messages.check_apply_response),
    (pb.FragmentsResponse, messages.check_fragments_response),
    (pb.FragmentStoreHealthResponse, messages.check_store_health_response),
]
DECODERS = [messages.decode_spec, messages.decode_broker_spec, messages.decode_route]


def all_doors(data: bytes) -> int:
    """Try ``data`` at every door and count those that let it in; all else is a known refusal."""
    accepted = 0
    for kind, check in CHECKS:
        with suppress(DecodeError, InvalidField):
            check(kind.FromString(data))
            accepted += 1
    for decode in DECODERS:
        with suppress(InvalidField):
            decode(data)
            accepted += 1
    return accepted


fuzzing = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
field_numbers = st.integers(1, 12) | st.integers(1001, 1006)
small_numbers = st.integers(-3, 20) | st.integers(-(2**63), 2**63 - 1)
scraps = st.sampled_from(
    [b"a/journal", b"a/journal;m", b"/x", b"aa", b"zone", b"broker-1", b"file:///a/", b"http://h:1"]
) | st.binary(max_size=12)
leaf_fields = (
    st.builds(num, field_numbers, small_numbers)
    | st.builds(fixed64, field_numbers, st.integers(0, 2**64 - 1))
    | st.builds(fixed32, field_numbers, st.integers(0, 2**32 - 1))
    | st.builds(sub, field_numbers, scraps)
)
frames = st.recursive(
    leaf_fields,
    lambda inner: st.builds(
        lambda number, parts: sub(number, *parts), field_numbers, st.lists(inner, max_size=4)
    ),
    max_leaves=12,
)
golden_bytes = st.sampled_from([golden.by_hand for golden in GOLDEN if golden.by_hand])


@fuzzing
@given(st.binary(max_size=200))
def test_random_bytes_are_taken_or_refused(data: bytes) -> None:
    all_doors(data)


@fuzzing
@given(st.lists(frames, max_size=8).map(b"".join))
def test_well_formed_frames_of_random_fields_are_taken_or_refused(data: bytes) -> None:
    all_doors(data)


@fuzzing
@given(golden_bytes, st.data())
def test_a_good_message_with_bytes_changed_cut_or_added_is_taken_or_refused(
    good: bytes, data: st.DataObject
) -> None:
    spoiled = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(spoiled)))
        spoiled[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    all_doors(bytes(spoiled))


@pytest.mark.parametrize("name", [name for name, data in committed().items() if len(data) > 8])
def test_a_good_message_cut_anywhere_is_taken_or_refused(name: str) -> None:
    data = committed()[name]
    for end in range(len(data)):
        all_doors(data[:end])


@pytest.mark.parametrize("length", [513, 4096, 1 << 20])
def test_over_long_names_are_refused_wherever_they_stand(length: int) -> None:
    name = "n" * length
    attempts: list[tuple[Message, Callable[[Any], object]]] = [
        (pb.AppendRequest(journal=name), CHECKS[0][1]),
        (pb.ReadRequest(journal=name), messages.check_read_request),
        (pb.ReadRequest(journal=f"a/journal;{name}"), messages.check_read_request),
        (pb.FragmentsRequest(journal=name), messages.check_fragments_request),
        (
            pb.ApplyRequest(changes=[pb.ApplyRequest.Change(delete=name, expect_mod_revision=1)]),
            messages.check_apply_request,
        ),
        (
            pb.ListRequest(
                selector=pb.LabelSelector(include=pb.LabelSet(labels=[pb.Label(name=name)]))
            ),
            messages.check_list_request,
        ),
    ]
    for message, check in attempts:
        with pytest.raises(InvalidField, match=rf"invalid length \({length};") as refused:
            check(message)
        assert len(str(refused.value)) < 200


@fuzzing
@given(st.text())
def test_any_text_names_a_journal_or_is_refused(text: str) -> None:
    with suppress(InvalidField):
        assert valid_journal(text, allow_meta=True) == text


def test_the_doors_let_good_messages_in() -> None:
    """Or the fuzzing above would prove nothing."""
    assert sum(all_doors(golden.by_hand) > 0 for golden in GOLDEN) == len(GOLDEN)
