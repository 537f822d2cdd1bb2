from __future__ import annotations

import pickle

import pytest

from windrow.errors import WindrowError
from windrow.outbox import TransactionEnded, UnsupportedConnection
from windrow.outbox.errors import Blocked
from windrow.outbox.grants import Roles, grants
from windrow.outbox.schema import COMPANIONS, migrations, script
from windrow.outbox.table import Table


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [step.number for step in migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_steps_that_leave_the_outbox_alone_name_only_its_companions() -> None:
    steps = migrations(companions_only=True)
    assert [step.name for step in steps] == ["companions", "shards", "doorbell", "source"]
    statements = "".join(step.statement(Table()) for step in steps)
    assert Table().sql not in statements
    assert all(f'"outbox_{name}"' in statements for name in COMPANIONS)


def test_the_script_is_one_transaction_that_writes_down_every_step() -> None:
    text = script(Table("outbox", "shop"))
    assert text.startswith("BEGIN;")
    assert text.endswith("COMMIT;")
    assert 'CREATE SCHEMA IF NOT EXISTS "shop";' in text
    assert text.count('INSERT INTO "shop"."outbox_migrations"') == len(migrations())


ADDING = ("GRANT INSERT ON", "GRANT SELECT (id) ON", 'GRANT SELECT ON "outbox_doorbell"')


def test_the_writer_may_only_add_and_the_reader_may_only_look() -> None:
    roles = Roles("w", "r", "s")
    for statement in grants(Table(), roles):
        if statement.endswith('TO "w";'):
            assert statement.startswith(ADDING)
        if statement.endswith('TO "s";'):
            assert statement.startswith("GRANT SELECT ")
            assert "kafka_value" not in statement
            assert "kafka_header" not in statement


def test_names_cannot_break_out_of_the_statements_that_grant() -> None:
    table = Table("a'b\"c$windrow$", 'x"')
    for statement in grants(table, Roles('w"', "r'", "s$windrow$")):
        if statement.startswith("DO "):
            tag = statement.split(" ")[1]
            assert statement.count(tag) == 2


@pytest.mark.parametrize(
    "error",
    [
        TransactionEnded(3),
        UnsupportedConnection("sqlite3 Connection", "no"),
        Blocked("outbox", 5.0, ("pid 7 (psql, idle in transaction, for 12 s)",)),
        Blocked("outbox", 5.0, ()),
    ],
)
def test_errors_survive_pickling(error: WindrowError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
