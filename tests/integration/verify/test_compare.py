"""The comparison on columns against the count that goes record by record."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from tests.integration.verify import memory_child
from windrow.verify import Arrival, Entry, NoRoom, WrittenTwice, compare, tally
from windrow.verify.columns import counting
from windrow.verify.columns.digests import digests
from windrow.verify.columns.judging import judge
from windrow.verify.sources.records import Records

ROOT = Path(__file__).parents[3]

A1, A2 = ("a", 1), ("a", 2)

records = st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(0, 5) | st.sampled_from("xy"))


@pytest.fixture(scope="module", autouse=True)
def small_pieces() -> Iterator[None]:
    """So that even a few records come in several, and are looked up in several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("windrow.verify.sources.records.BATCH", 3)
        patch.setattr(counting, "PIECE", 1)
        yield


@pytest.fixture(scope="module", params=[1 << 20, 250, 1], ids=["held", "some files", "many files"])
def memory(request: pytest.FixtureRequest) -> int:
    size: int = request.param
    return size * counting.SHARES


@settings(max_examples=40)
@given(
    written=st.lists(records, unique=True, max_size=14),
    maybe=st.sets(records),
    arrived=st.lists(records, max_size=20),
)
@example(written=[A1, A2], maybe=set(), arrived=[A2, A1, A2, A1])
def test_it_counts_as_tally_does_however_little_memory_there_is(
    memory: int, written: list[Arrival], maybe: set[Arrival], arrived: list[Arrival]
) -> None:
    entries = [Entry(*record, maybe=record in maybe) for record in written]
    expected = tally(entries, arrived)
    found = compare(Records(entries), Records(arrived), memory=memory)
    assert (found.written, found.missing, found.doubled, found.misordered, found.unexpected) == (
        expected.written,
        expected.lost,
        expected.doubled,
        expected.misordered,
        expected.unexpected,
    )
    assert (found.arrived, found.is_clean) == (len(arrived), expected.is_clean)
    named = {kind: {(e.key, e.id) for e in found.examples.get(kind, ())} for kind in found.examples}
    renamed = {"missing": "lost"}
    for kind, examples in named.items():
        expectation = expected.examples[renamed.get(kind, kind)]
        assert examples & {(key, str(id)) for key, id in expectation}


def test_a_record_written_twice_is_refused_however_little_memory_there_is(memory: int) -> None:
    with pytest.raises(WrittenTwice, match="record '1' of key 'a'"):
        compare(Records([A1, A2, A1]), Records([]), memory=memory)


@settings(max_examples=20)
@given(
    written=st.lists(records, unique=True, max_size=10),
    arrived=st.lists(records, max_size=20),
)
def test_without_order_every_repeat_is_doubled(
    memory: int, written: list[Arrival], arrived: list[Arrival]
) -> None:
    expected = Counter(record for record in arrived if record in written)
    found = compare(Records(written), Records(arrived), ordered=False, memory=memory)
    assert (found.doubled, found.misordered) == (expected.total() - len(expected), 0)
    assert found.missing == len(set(written) - set(arrived))


def test_examples_are_the_first_ones_and_few(memory: int) -> None:
    written = [("a", n) for n in range(30)]
    found = compare(Records(written), Records([]), memory=memory)
    assert [(e.key, e.id, e.at) for e in found.examples["missing"]] == [
        ("a", str(n), n + 1) for n in range(10)
    ]


def test_numbers_and_their_text_are_the_same_id() -> None:
    assert compare(Records([("a", 1), ("a", "b")]), Records([("a", "1"), ("a", "b")])).is_clean


def test_bytes_that_are_no_text_are_compared_and_shown() -> None:
    found = compare(Records([(b"\xff", 1), (b"\xfe", 1)]), Records([(b"\xfe", 1)]))  # type: ignore[list-item]
    assert [(e.key, e.id) for e in found.examples["missing"]] == [("\\xff", "1")]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20, unique=True), st.data())
def test_a_digest_depends_on_the_value_alone(values: list[bytes], data: st.DataObject) -> None:
    """Not on where it lies in its column, nor on what lies beside it."""
    begin = data.draw(st.integers(0, len(values) - 1))
    for which in (0, 1):
        whole = digests(pa.array(values, pa.binary()), which)
        assert whole[begin:].tolist() == digests(pa.array(values).slice(begin), which).tolist()
        assert len(set(whole.tolist())) == len(values)
    both = {which: digests(pa.array(values, pa.binary()), which).tolist() for which in (0, 1)}
    assert both[0] != both[1]


def test_keys_whose_first_digests_collide_are_still_two_keys() -> None:
    """Key b overtakes nobody, though its first 64 bits are those of a."""
    a, b = (7, 1), (7, 2)
    rows = np.array([[*a, 0, 5], [*b, 1, 3], [*a, 2, 6], [*b, 3, 4]], np.int64)
    verdict = judge(rows)
    assert (len(verdict.doubled), len(verdict.misordered)) == (0, 0)


@pytest.mark.parametrize("keys", [1, 300_000])
def test_memory_does_not_grow_with_the_number_of_records(keys: int) -> None:
    """Neither for one key with all records, nor for as many keys as records."""
    records, limit = 600_000, 16 << 20
    child = subprocess.run(
        [sys.executable, "-m", memory_child.__name__, str(records), str(keys), str(limit)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(child.stdout)
    assert (found["written"], found["arrived"], found["missing"]) == (records, records - 1, 1)
    assert found["examples"]["missing"][0]["id"] == str(records // 2)
    assert found["peak"] - found["before"] < 100  # MiB; held whole they take twice that and more


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(NoRoom, match=f"aside in {nowhere}: No such file"):
        compare(Records([A1]), Records([A1]), directory=nowhere)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    compare(Records([A1, A2]), Records([A2]), memory=1, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []
