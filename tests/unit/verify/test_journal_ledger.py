"""That each kind of trouble of a journal is told, by its name and nothing else."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha1

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.verify.journal_contents import Found, Torn, find_contents, make_content
from windrow.verify.journal_ledger import (
    Append,
    Name,
    Outcome,
    acked_line,
    check_journal,
    maybe_line,
    read_lines,
    refused_line,
)

JOURNAL = "a/journal"
SIZES = (100, 5000, 0, 700)


def sum_of(content: bytes) -> bytes:
    return sha1(content, usedforsecurity=False).digest()


def written(*sizes: int, writer: str = "w") -> tuple[dict[Name, Append], list[bytes]]:
    """Acknowledged appends, one behind the other, and their contents."""
    ledger, contents, begin = {}, [], 0
    for number, size in enumerate(sizes):
        content = make_content(writer, number, size)
        digest, end = sum_of(content), begin + len(content)
        ledger[writer, number] = Append(writer, number, digest, Outcome.ACKED, begin, end, digest)
        contents.append(content)
        begin = end
    return ledger, contents


def troubles(ledger: dict[Name, Append], *contents: bytes) -> dict[str, int]:
    return check_journal(ledger, b"".join(contents)).troubles


def test_a_journal_that_holds_every_append_in_its_place_is_clean() -> None:
    ledger, contents = written(*SIZES)
    verdict = check_journal(ledger, b"".join(contents))
    assert verdict.is_clean
    assert (verdict.acked, verdict.found) == (4, 4)


def test_an_acknowledged_append_that_is_not_there_is_lost() -> None:
    ledger, contents = written(*SIZES)
    assert troubles(ledger, *contents[:-1]) == {"lost": 1, "wrong sum": 1}


def test_an_append_that_is_there_twice_is_doubled() -> None:
    ledger, contents = written(*SIZES)
    assert troubles(ledger, *contents, contents[-1]) == {"doubled": 1}


def test_an_append_elsewhere_than_its_answer_said_is_misplaced() -> None:
    ledger, contents = written(10, 10)
    ledger["w", 1] = replace(ledger["w", 1], begin=0, end=ledger["w", 0].end)
    assert troubles(ledger, *contents) == {"misplaced": 1, "wrong sum": 1}


def test_an_append_before_an_earlier_one_of_its_writer_is_misordered() -> None:
    ledger, contents = written(10, 10)
    first, second = ledger["w", 0], ledger["w", 1]
    ledger["w", 0] = replace(first, begin=second.begin, end=second.end)
    ledger["w", 1] = replace(second, begin=first.begin, end=first.end)
    assert troubles(ledger, *reversed(contents)) == {"misordered": 1}


def test_an_answer_with_another_sum_is_told() -> None:
    ledger, contents = written(10)
    ledger["w", 0] = replace(ledger["w", 0], reported=bytes(20))
    assert troubles(ledger, *contents) == {"wrong sum": 1}


def test_appends_written_into_each_other_are_torn() -> None:
    ledger, (one, two) = written(1000, 1000)
    mixed = one[:500] + two + one[500:]
    assert troubles(ledger, mixed) == {"torn": 2, "lost": 1, "misplaced": 1, "wrong sum": 2}


def test_bytes_that_are_cut_off_are_torn() -> None:
    ledger, contents = written(10)
    half = make_content("w", 1, 1000)[:500]
    ledger["w", 1] = Append("w", 1, sum_of(half))
    assert troubles(ledger, *contents, half) == {"torn": 1}


@pytest.mark.parametrize("outcome", [None, Outcome.REFUSED])
def test_an_append_that_was_refused_or_never_sent_is_unexpected(outcome: Outcome | None) -> None:
    ledger, contents = written(10)
    stranger = make_content("w", 1, 10)
    if outcome is not None:
        ledger["w", 1] = Append("w", 1, sum_of(stranger), outcome)
    assert troubles(ledger, *contents, stranger) == {"unexpected": 1}


@pytest.mark.parametrize("times", [0, 1, 2])
def test_an_append_of_unknown_outcome_may_be_there_once(times: int) -> None:
    ledger, contents = written(10)
    unknown = make_content("w", 1, 10)
    ledger["w", 1] = Append("w", 1, sum_of(unknown))
    found = troubles(ledger, *contents, *[unknown] * times)
    assert found == ({"doubled": 1} if times == 2 else {})


def test_the_lines_of_writers_give_the_ledger_back_without_a_torn_last_one() -> None:
    acked, refused, unknown = (Append("w", n, sum_of(b"%d" % n)) for n in range(3))
    lines = [
        maybe_line(JOURNAL, acked),
        acked_line(JOURNAL, acked, 5, 9, acked.sum),
        maybe_line(JOURNAL, refused),
        refused_line(JOURNAL, refused),
        maybe_line(JOURNAL, unknown),
    ]
    torn = acked_line(JOURNAL, unknown, 9, 10, unknown.sum)[:-3]
    assert read_lines([*(line + "\n" for line in lines), torn]) == {
        JOURNAL: {
            ("w", 0): Append("w", 0, acked.sum, Outcome.ACKED, 5, 9, acked.sum),
            ("w", 1): Append("w", 1, refused.sum, Outcome.REFUSED),
            ("w", 2): unknown,
        }
    }


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 400)), max_size=6))
def test_finding_leaves_no_byte_out_and_invents_no_content(pieces: list[tuple[int, int]]) -> None:
    """Any mixture of whole and cut contents: what is found is exactly the whole ones."""
    contents = [make_content("w", number, size) for number, (size, _) in enumerate(pieces)]
    kept = [content[:cut] for content, (_, cut) in zip(contents, pieces, strict=True)]
    parts = list(find_contents(b"".join(kept), begin=7))
    whole = [n for n, (had, all_) in enumerate(zip(kept, contents, strict=True)) if had == all_]
    assert [part.number for part in parts if isinstance(part, Found)] == whole
    at = 7
    for part in parts:
        assert part.begin == at < part.end
        at = part.end
    assert at == 7 + sum(map(len, kept))
    assert all(isinstance(part, Found | Torn) for part in parts)
