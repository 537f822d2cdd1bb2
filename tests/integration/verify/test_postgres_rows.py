"""What PostgreSQL gives, many rows at a time: all of it, as its text, and not too much at once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windrow.config import Dsn
from windrow.verify.sources.postgres import BLOCK, FIRST_ROWS, MOST_ROWS, PostgresQuery, rows_of


def batches(dsn: str, query: str) -> list[pa.RecordBatch]:
    return list(PostgresQuery(Dsn(dsn), query, "rows", 5.0).batches())


def pairs(dsn: str, query: str) -> list[tuple[bytes, bytes]]:
    return [(row["key"], row["id"]) for batch in batches(dsn, query) for row in batch.to_pylist()]


@pytest.mark.parametrize("rows", [0, 1, FIRST_ROWS, FIRST_ROWS + 1, MOST_ROWS + 2 * FIRST_ROWS])
def test_every_row_is_given_once_and_in_order(database: str, rows: int) -> None:
    query = f"SELECT 'k', n FROM generate_series(1, {rows}) AS n ORDER BY n"
    assert [id for _, id in pairs(database, query)] == [b"%d" % n for n in range(1, rows + 1)]


def test_values_are_the_text_of_the_server(database: str) -> None:
    query = (
        "SELECT * FROM (VALUES (1, NULL, '2026-11-16 21:00+00'::timestamptz), (2, '', NULL),"
        " (3, E'a\\n\"b\",\\t\\\\', '2026-11-16'), (4, 'ä', '2026-11-16')) AS v (n, k, t)"
    )
    found = pairs(database, f"SELECT k, n FROM ({query}) AS q ORDER BY n -- to the end")
    assert found == [(b"", b"1"), (b"", b"2"), (b'a\n"b",\t\\', b"3"), ("ä".encode(), b"4")]
    found = pairs(database, f"SELECT n > 2, t - t FROM ({query}) AS q WHERE t IS NOT NULL")
    assert found == [(b"f", b"00:00:00"), (b"t", b"00:00:00"), (b"t", b"00:00:00")]


def test_long_values_come_in_few_rows_at_a_time(database: str) -> None:
    """A number of rows that suits short ids would be hundreds of megabytes of long keys."""
    query = "SELECT repeat('k', 20000), n FROM generate_series(1, 400) AS n"
    first, *others = batches(database, query)
    assert (len(first), sum(map(len, others))) == (FIRST_ROWS, 400 - FIRST_ROWS)
    assert all(batch.nbytes <= 1.1 * BLOCK for batch in others)


def test_as_many_rows_are_asked_for_as_fill_a_block() -> None:
    assert rows_of(1000, 10, 100) == 100
    assert rows_of(1000, 10, 1) == 10_000
    assert rows_of(1000, 1, 5000) == 1
    assert rows_of(BLOCK, 100, 1) == MOST_ROWS
