from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.outbox import Columns, InvalidIdentifier, Table
from windrow.outbox.table import WINDROW, debezium, found, quote

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
names = names.filter(lambda name: len(name.encode()) <= 52)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("outbox", Table("outbox")),
        ("shop.outbox", Table("outbox", "shop")),
        ("Shop.OutBox", Table("OutBox", "Shop")),
        ('"my.shop".outbox', Table("outbox", "my.shop")),
        ('shop."out.box"', Table("out.box", "shop")),
        ('"a""b"', Table('a"b')),
        ("ünïcödé.発信箱", Table("発信箱", "ünïcödé")),
    ],
)
def test_a_table_is_written_as_in_sql_and_its_case_kept(text: str, table: Table) -> None:
    assert Table.parse(text) == table


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a.b.c", '"', 'a"b', '"a"b', '"a', 'a."', "NUL\x00", '""']
)
def test_what_is_no_name_of_a_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidIdentifier, match="invalid identifier"):
        Table.parse(text)


@given(name=names, schema=st.none() | names)
def test_any_table_is_read_back_from_how_it_is_written(name: str, schema: str | None) -> None:
    table = Table(name, schema)
    assert Table.parse(table.sql) == table
    assert Table.parse(table.written) == table


@given(names)
def test_a_quoted_name_cannot_end_early(name: str) -> None:
    inner = quote(name)[1:-1]
    assert '"' not in inner.replace('""', "")


def test_a_name_is_refused_before_the_longest_companion_would_be_cut() -> None:
    assert Table("x" * 52).companion("_migrations") == f'"{"x" * 52}_migrations"'
    for name in ("x" * 53, "ü" * 27):
        with pytest.raises(InvalidIdentifier, match="longer than 63 bytes"):
            Table(name)
    with pytest.raises(InvalidIdentifier, match="longer than 63 bytes"):
        Table("outbox", "s" * 64)


def test_columns_that_the_table_lacks_are_left_out_if_the_relay_can_do_without() -> None:
    assert found(WINDROW, frozenset({"kafka_partition"})) == Columns(partition="kafka_partition")


def test_debeziums_columns_are_all_needed() -> None:
    text, binary = debezium("seq"), debezium("seq", is_binary=True)
    used = {"id", "aggregatetype", "aggregateid", "type", "payload", "seq", "leader_id"}
    assert found(text, frozenset()).used == used
    assert found(binary, frozenset()).used == used
