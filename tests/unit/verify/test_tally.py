from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.verify import Arrival, Entry, Tally, WrittenTwice, tally


def ledger(*records: tuple[str, int | str]) -> list[Entry]:
    return [Entry(key, record_id) for key, record_id in records]


A1, A2, A3, B1 = ("a", 1), ("a", 2), ("a", 3), ("b", 1)


def test_everything_once_and_in_order_is_clean() -> None:
    verdict = tally(ledger(A1, B1, A2, A3), [A1, A2, A3, B1])
    assert verdict == Tally(written=4, delivered=4)
    assert verdict.is_clean


def test_order_is_asked_for_within_a_key_only() -> None:
    assert tally(ledger(A1, B1, A2), [B1, A1, A2]).is_clean


def test_a_record_that_never_arrives_is_lost() -> None:
    verdict = tally(ledger(A1, A2, A3), [A1, A3])
    assert (verdict.lost, verdict.misordered, verdict.examples) == (1, 0, {"lost": (A2,)})
    assert not verdict.is_clean


def test_a_key_of_which_nothing_arrives_is_lost() -> None:
    assert tally(ledger(A1, B1), [A1]).examples == {"lost": (B1,)}


def test_a_repeat_of_the_latest_record_of_a_key_is_doubled() -> None:
    verdict = tally(ledger(A1, A2, B1), [A1, A2, B1, A2])
    assert (verdict.doubled, verdict.misordered, verdict.examples) == (1, 0, {"doubled": (A2,)})
    assert not verdict.is_clean


def test_a_repeat_of_an_older_record_is_misordered() -> None:
    verdict = tally(ledger(A1, A2), [A1, A2, A1])
    assert (verdict.doubled, verdict.misordered) == (0, 1)
    assert verdict.examples == {"misordered": (A1,)}
    assert not verdict.is_clean


def test_no_permission_to_repeat_covers_a_repeat_of_an_older_record() -> None:
    verdict = tally(ledger(A1, A2), [A1, A2, A1], may_repeat=[A1])
    assert (verdict.misordered, verdict.forgiven, verdict.is_clean) == (1, 0, False)


def test_a_record_overtaken_by_a_later_one_is_misordered_and_delivered() -> None:
    verdict = tally(ledger(A1, A2, A3), [A1, A3, A2])
    assert (verdict.delivered, verdict.lost, verdict.misordered) == (3, 0, 1)
    assert verdict.examples == {"misordered": (A2,)}


def test_a_record_nobody_wrote_is_unexpected() -> None:
    verdict = tally(ledger(A1), [A1, A2, B1, B1])
    assert (verdict.unexpected, verdict.examples) == (3, {"unexpected": (A2, B1)})
    assert not verdict.is_clean


def test_an_allowed_repeat_is_counted_and_forgiven() -> None:
    verdict = tally(ledger(A1), [A1, A1], may_repeat=[A1, B1])
    assert (verdict.doubled, verdict.forgiven, verdict.examples) == (1, 1, {})
    assert verdict.is_clean


def test_a_permission_to_repeat_is_used_up_by_one_repeat() -> None:
    assert not tally(ledger(A1), [A1, A1, A1], may_repeat=[A1]).is_clean
    assert tally(ledger(A1), [A1, A1, A1], may_repeat=[A1, A1]).is_clean


def test_a_permission_to_repeat_one_record_does_not_cover_another() -> None:
    assert not tally(ledger(A1, B1), [A1, B1, B1], may_repeat=[A1]).is_clean


@pytest.mark.parametrize("arrived", [[A1], [A1, A2]])
def test_a_commit_of_unknown_outcome_may_arrive_or_not(arrived: list[Arrival]) -> None:
    verdict = tally([Entry("a", 1), Entry("a", 2, maybe=True)], arrived)
    assert verdict == Tally(written=len(arrived), delivered=len(arrived))


def test_a_commit_of_unknown_outcome_may_not_arrive_twice() -> None:
    verdict = tally([Entry("a", 1, maybe=True)], [A1, A1])
    assert (verdict.written, verdict.doubled, verdict.is_clean) == (1, 1, False)


def test_a_commit_of_unknown_outcome_keeps_its_place_in_the_order() -> None:
    verdict = tally([Entry("a", 1, maybe=True), Entry("a", 2)], [A2, A1])
    assert (verdict.written, verdict.delivered, verdict.misordered) == (2, 2, 1)


def test_ids_need_not_be_numbers_nor_grow() -> None:
    assert tally(ledger(("a", "z"), ("a", 7), ("a", "b")), [("a", "z"), ("a", 7), ("a", "b")])


def test_a_ledger_that_names_a_record_twice_is_refused() -> None:
    with pytest.raises(WrittenTwice, match="record 1 of key 'a' is in the ledger twice"):
        tally(ledger(A1, A2, A1), [])


def test_examples_are_few_however_many_there_are() -> None:
    verdict = tally(ledger(*(("a", n) for n in range(1000))), [])
    assert (verdict.lost, len(verdict.examples["lost"])) == (1000, 10)


def test_the_verdict_reads_as_one_line_and_names_the_records() -> None:
    assert str(tally(ledger(A1, A2), [A2])) == (
        "written 2, delivered 1, lost 1, doubled 0, misordered 0, unexpected 0\n  lost: a/1"
    )


class Generated:
    """A ledger that is nowhere in memory."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Entry]:
        return (Entry(f"key-{n % 7}", n) for n in range(self.count))


def test_memory_does_not_grow_with_the_number_of_records() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        assert tally(Generated(count), ((key, n) for key, n, _ in Generated(count))).is_clean
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(100)
    assert peak(20_000) < 1.5 * peak(2_000)


def naive(written: list[Entry], arrived: list[Arrival], may_repeat: list[Arrival]) -> Tally:
    """The table of the module's docstring, word for word, with no thought for speed."""
    order = {(key, record_id): n for n, (key, record_id, _) in enumerate(written)}
    maybe = {(key, record_id) for key, record_id, is_maybe in written if is_maybe}
    left = list(may_repeat)
    doubled = misordered = unexpected = forgiven = 0
    for n, arrival in enumerate(arrived):
        if arrival not in order:
            unexpected += 1
            continue
        before = [order[a] for a in arrived[:n] if a[0] == arrival[0] and a in order]
        if not before or order[arrival] > max(before):
            continue
        if order[arrival] < max(before):
            misordered += 1
            continue
        doubled += 1
        if arrival in left:
            left.remove(arrival)
            forgiven += 1
    there = set(arrived)
    delivered = sum(record in there for record in order)
    lost = sum(record not in there and record not in maybe for record in order)
    return Tally(delivered + lost, delivered, lost, doubled, misordered, unexpected, forgiven)


records = st.tuples(st.sampled_from("abc"), st.integers(0, 5))


@given(
    written=st.lists(records, unique=True, max_size=14),
    maybe=st.sets(records),
    arrived=st.lists(records, max_size=20),
    may_repeat=st.lists(records, max_size=4),
)
def test_it_agrees_with_the_naive_count_whatever_arrives(
    written: list[Arrival], maybe: set[Arrival], arrived: list[Arrival], may_repeat: list[Arrival]
) -> None:
    entries = [Entry(*record, maybe=record in maybe) for record in written]
    verdict = tally(entries, arrived, may_repeat)
    expected = naive(entries, arrived, may_repeat)
    assert {**vars(verdict), "examples": {}} == vars(expected)
    assert set(verdict.examples.get("lost", ())) <= set(written) - set(arrived) - maybe
    assert not set(verdict.examples.get("unexpected", ())) & set(written)


@given(written=st.lists(records, unique=True, min_size=1), data=st.data())
def test_any_one_thing_going_wrong_is_found(written: list[Arrival], data: st.DataObject) -> None:
    """The oracle's table may itself be wrong: these four need no oracle."""
    entries = [Entry(*record) for record in written]
    n = data.draw(st.integers(0, len(written) - 1))
    record = written[n]
    later = [other for other in written[n + 1 :] if other[0] == record[0]]
    assert tally(entries, written).is_clean
    assert tally(entries, written[:n] + written[n + 1 :]).lost == 1
    assert tally(entries, [*written, ("d", 0)]).unexpected == 1
    repeated = tally(entries, [*written, record])
    assert (repeated.misordered, repeated.doubled) == ((1, 0) if later else (0, 1))
    if later:
        moved = tally(entries, [*written[:n], *written[n + 1 :], record])
        assert (moved.misordered, moved.lost) == (1, 0)
