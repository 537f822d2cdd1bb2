"""What the next batch reads, and how it is cut."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph.delivery.scenes import UID, at, offsets, span
from windrow.graph.delivery_errors import (
    IncarnationChanged,
    LanesDiffer,
    SourceBehind,
    SourceTrimmed,
)
from windrow.graph.planning import (
    Available,
    Limits,
    Taking,
    available_now,
    backlog,
    plan,
    spans_between,
    splits,
    whole_partitions,
)
from windrow.graph.snapshot import Snapshot


def has(source: str, end: int, first: int = 0, partition: int = 0, mean: float = 0.0) -> Available:
    return Available(source, f"{source}-1", partition, first, end, mean)


def test_alts_take_what_there_is_from_all_by_name() -> None:
    spans = plan("alts", offsets(s1=2), [has("s2", 3), has("s1", 5)])
    assert spans == (span("s1", 2, 5), span("s2", 0, 3))


def test_ranges_that_are_empty_are_planned_too() -> None:
    assert plan("alts", offsets(s1=5), [has("s1", 5), has("s2", 1)]) == (
        span("s1", 5, 5),
        span("s2", 0, 1),
    )


def test_nothing_new_is_no_plan() -> None:
    assert plan("alts", offsets(s1=5), [has("s1", 5)]) is None
    assert plan("alts", offsets(), []) is None


def test_a_limit_is_shared_fairly_and_what_is_left_goes_by_name() -> None:
    spans = plan(
        "alts", offsets(), [has("a", 100), has("b", 2), has("c", 100)], Limits(max_rows=11)
    )
    assert spans is not None
    assert [len(one) for one in spans] == [5, 2, 4]


def test_a_limit_of_bytes_goes_by_the_mean_size() -> None:
    spans = plan("alts", offsets(), [has("a", 100, mean=10.0)], Limits(max_bytes=250))
    assert spans == (span("a", 0, 25),)
    huge = plan("alts", offsets(), [has("a", 3, mean=1e9)], Limits(max_bytes=10))
    assert huge == (span("a", 0, 1),), "one large message must not hold up everything"


def test_a_join_takes_the_same_number_from_every_input() -> None:
    spans = plan("join", offsets(s1=1, s2=1), [has("s1", 9), has("s2", 4)])
    assert spans == (span("s1", 1, 4), span("s2", 1, 4))
    assert plan("join", offsets(), [has("s1", 9), has("s2", 0)]) is None


def test_a_join_is_limited_by_the_rows_of_all_inputs() -> None:
    spans = plan("join", offsets(), [has("s1", 9), has("s2", 9)], Limits(max_rows=6))
    assert spans == (span("s1", 0, 3), span("s2", 0, 3))


def test_the_lanes_of_a_join_are_planned_apart() -> None:
    held = [has("s1", 4), has("s1", 1, partition=1), has("s2", 2), has("s2", 5, partition=1)]
    spans = plan("join", offsets(), held)
    assert spans is not None
    assert [(one.source, one.partition, len(one)) for one in spans] == [
        ("s1", 0, 2),
        ("s1", 1, 1),
        ("s2", 0, 2),
        ("s2", 1, 1),
    ]


def test_a_join_of_different_partitions_is_refused() -> None:
    with pytest.raises(LanesDiffer, match=r'"s1" has \[0\], "s2" has \[0, 1\]'):
        plan("join", offsets(), [has("s1", 1), has("s2", 1), has("s2", 1, partition=1)])


def test_an_input_that_was_never_read_begins_with_what_it_has() -> None:
    assert plan("alts", offsets(), [has("s1", 9, first=6)]) == (span("s1", 6, 9),)


def test_what_cannot_be_read_any_more_is_refused() -> None:
    with pytest.raises(SourceTrimmed, match="begins at 6, but 4 messages from 2 on"):
        plan("alts", offsets(s1=2), [has("s1", 9, first=6)])
    with pytest.raises(SourceBehind, match="ends at 9, but messages up to 12"):
        plan("alts", offsets(s1=12), [has("s1", 9)])
    with pytest.raises(IncarnationChanged):
        plan("alts", offsets(s1=2), [Available("s1", "made again", 0, 0, 9)])


def test_a_run_of_what_is_available_now_ends_where_it_was_fixed() -> None:
    held = [has("s1", 4)]
    until = available_now(held)
    assert plan("alts", offsets(), [has("s1", 9)], until=until) == (span("s1", 0, 4),)
    assert plan("alts", offsets(s1=4), [has("s1", 9)], until=until) is None
    assert plan("alts", offsets(s1=4), [has("s1", 9), has("s2", 3)], until=until) is None


def test_ranges_are_found_again_from_offsets_alone() -> None:
    assert spans_between(offsets(s1=2), offsets(s1=5, s2=3)) == (
        span("s1", 2, 5),
        span("s2", 0, 3),
    )
    known = Snapshot(UID, 4, (span("s1", 2, 5), span("s2", 1, 3)))
    assert spans_between(offsets(s1=2), offsets(s1=5, s2=3), known) == known.spans
    assert spans_between(offsets(s1=2), offsets(s1=4), known) == (span("s1", 2, 4),)


def test_the_backlog_counts_what_waits_and_what_waits_for_its_pair() -> None:
    held = [has("s1", 9), has("s2", 4)]
    assert backlog("alts", offsets(s1=2), held).rows == {"s1": 7, "s2": 4}
    joined = backlog("join", offsets(), held)
    assert (joined.total, joined.unpaired) == (8, 5)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6),
    st.integers(1, 60),
    st.sampled_from(["alts", "join"]),
)
def test_batches_take_everything_once_and_never_more_than_allowed(
    lengths: list[int], limit: int, taking: Taking
) -> None:
    held = [has(f"s{place}", length) for place, length in enumerate(lengths)]
    at_once = limit if taking == "alts" else max(limit, len(lengths))
    start, taken = offsets(), 0
    while (spans := plan(taking, start, held, Limits(max_rows=limit))) is not None:
        size = sum(map(len, spans))
        assert 0 < size <= at_once
        start = start.advanced(spans)
        taken += size
    whole = sum(lengths) if taking == "alts" else min(lengths) * len(lengths)
    assert taken == whole


# -- splits --------------------------------------------------------------------------------------


def test_a_snapshot_is_cut_by_partition_by_fragment_and_by_size() -> None:
    snapshot = Snapshot(UID, 1, (span("s1", 0, 10), span("s2", 4, 6), span("s3", 1, 1)))
    whole = splits("alts", snapshot)
    assert [part.spans for part in whole] == [(span("s1", 0, 10),), (span("s2", 4, 6),)]
    cut = splits("alts", snapshot, {span("s1").origin: [0, 7, 99]}, max_rows=4)
    assert [(one.start, one.end) for part in cut for one in part.spans] == [
        (0, 4),
        (4, 7),
        (7, 8),
        (8, 10),
        (4, 6),
    ]


def test_the_parts_of_a_join_are_cut_at_the_same_rows() -> None:
    snapshot = Snapshot(UID, 1, (span("s1", 3, 9), span("s2", 0, 6)))
    parts = splits("join", snapshot, {span("s2").origin: [4]})
    assert [part.spans for part in parts] == [
        (span("s1", 3, 7), span("s2", 0, 4)),
        (span("s1", 7, 9), span("s2", 4, 6)),
    ]
    assert parts[1].positions(1) == (at("s1", 8), at("s2", 5))


@given(st.integers(0, 40), st.integers(1, 9), st.lists(st.integers(0, 40), max_size=4))
def test_however_it_is_cut_each_row_is_read_once(
    length: int, max_rows: int, fragments: list[int]
) -> None:
    snapshot = Snapshot(UID, 1, (span("s1", 0, length), span("s2", 5, 5 + length)))
    for taking in ("alts", "join"):
        parts = splits(taking, snapshot, {span("s1").origin: fragments}, max_rows)
        read = [one for part in parts for nth in range(len(part)) for one in part.positions(nth)]
        assert sorted(read) == [at("s1", n) for n in range(length)] + [
            at("s2", n) for n in range(5, 5 + length)
        ]


def test_at_most_once_reads_whole_partitions() -> None:
    snapshot = Snapshot(UID, 1, (span("s1", 0, 10), span("s2", 4, 4)))
    assert [part.spans for part in whole_partitions(snapshot)] == [(span("s1", 0, 10),)]


def test_a_split_can_be_sent_to_a_task() -> None:
    part = splits("alts", Snapshot(UID, 1, (span(),)))[0]
    assert pickle.loads(pickle.dumps(part)) == part
