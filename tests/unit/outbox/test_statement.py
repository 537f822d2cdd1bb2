from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.outbox import Record, Table
from windrow.outbox.statement import ParamStyle, in_chunks, insert_statement

PLAIN = Record("orders", "k", "v", {"h": "1"})
GOHARVEST = (
    '(create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)'
)  # fmt: skip


@pytest.mark.parametrize("records", [[PLAIN], [PLAIN, Record("orders", "k", None)]])
def test_a_record_that_goharvest_could_send_uses_goharvests_columns(records: list[Record]) -> None:
    sql, parameters = insert_statement(Table(), records)
    assert sql.startswith(f'INSERT INTO "outbox" {GOHARVEST} ')
    assert sql.endswith(" RETURNING id")
    assert len(parameters) == 5


@pytest.mark.parametrize(
    "record",
    [
        Record("orders", "k", b"bytes"),
        Record("orders", "k", "v", partition=0),
        Record("orders", "k", "v", timestamp=datetime.now(UTC)),
    ],
)
def test_only_a_record_that_uses_more_names_more_columns(record: Record) -> None:
    for records in ([record], [PLAIN, record]):
        sql, parameters = insert_statement(Table(), records)
        assert "kafka_value_bytes, kafka_partition, kafka_timestamp" in sql
        assert len(parameters) == 8


def test_text_and_bytes_go_to_columns_of_their_own() -> None:
    text = insert_statement(Table(), [Record("t", "k", "v", partition=1)]).parameters
    data = insert_statement(Table(), [Record("t", "k", b"v")]).parameters
    assert isinstance(text, tuple)
    assert isinstance(data, tuple)
    assert (text[2], text[5]) == ("v", None)
    assert (data[2], data[5]) == (None, b"v")


def test_many_records_are_sorted_by_their_position_before_ids_are_drawn() -> None:
    sql, parameters = insert_statement(Table(), [PLAIN, PLAIN, PLAIN])
    assert "WITH ORDINALITY" in sql
    assert sql.endswith(" ORDER BY position RETURNING id")
    assert isinstance(parameters, tuple)
    assert [len(values) for values in parameters] == [3] * 5


@pytest.mark.parametrize(
    ("style", "first", "last", "is_by_name"),
    [
        ("format", "%s", "%s", False),
        ("pyformat", "%(p1)s", "%(p5)s", True),
        ("qmark", "?", "?", False),
        ("numeric", ":1", ":5", False),
        ("named", ":p1", ":p5", True),
        ("numeric_dollar", "$1", "$5", False),
        ("binary_format", "%b", "%b", False),
    ],
)
def test_parameters_are_written_as_the_driver_wants_them(
    style: ParamStyle, first: str, last: str, is_by_name: bool
) -> None:
    sql, parameters = insert_statement(Table(), [PLAIN], style)
    assert f"VALUES (now(), {first}, " in sql
    assert f"CAST({last} AS text)" in sql
    values = ("orders", "k", "v", '{"h"}', '{"1"}')
    by_name = {f"p{n}": value for n, value in enumerate(values, start=1)}
    assert parameters == (by_name if is_by_name else values)


@pytest.mark.parametrize("style", get_args(ParamStyle))
def test_a_percent_sign_in_a_name_is_doubled_where_it_means_a_parameter(style: ParamStyle) -> None:
    sql, _ = insert_statement(Table("100%s"), [PLAIN], style)
    expected = '"100%%s"' if style.endswith("format") else '"100%s"'
    assert sql.startswith(f"INSERT INTO {expected} (")


def parsed(literal: str) -> list[str | None]:
    """A text[] as PostgreSQL reads it."""
    elements: list[str | None] = []
    position, end = 1, len(literal) - 1
    while position < end:
        if literal.startswith("NULL", position):
            elements.append(None)
            position += 4
        else:
            assert literal[position] == '"'
            position += 1
            text = ""
            while literal[position] != '"':
                position += literal[position] == "\\"
                text += literal[position]
                position += 1
            elements.append(text)
            position += 1
        assert literal[position] in ",}"
        position += 1
    return elements


@given(st.lists(st.tuples(st.text("ab\"\\,{} NULL'\n"), st.none() | st.text('ab"\\,{} NULL'))))
def test_headers_of_any_text_survive_as_an_array(headers: list[tuple[str, str | None]]) -> None:
    parameters = insert_statement(Table(), [Record("orders", "k", "v", headers)]).parameters
    assert isinstance(parameters, tuple)
    assert parsed(parameters[3]) == [name for name, _ in headers]
    assert parsed(parameters[4]) == [value for _, value in headers]


@given(
    sizes=st.lists(st.none() | st.integers(0, 30), max_size=30),
    max_records=st.integers(1, 5),
    max_bytes=st.integers(0, 40),
)
def test_chunks_hold_every_record_in_order_and_keep_to_both_limits(
    sizes: list[int | None], max_records: int, max_bytes: int
) -> None:
    records = [Record("t", str(n), None if s is None else b"x" * s) for n, s in enumerate(sizes)]
    chunks = list(in_chunks(iter(records), max_records, max_bytes))
    assert [record for chunk in chunks for record in chunk] == records
    for chunk in chunks:
        total = sum(len(record.value or b"") for record in chunk)
        assert 1 <= len(chunk) <= max_records
        assert total <= max_bytes or len(chunk) == 1
