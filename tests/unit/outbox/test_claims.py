from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import UsageError
from windrow.outbox.claims import Suspects, open_claims
from windrow.outbox.claims.contract import NOBODY
from windrow.outbox.claims.identity import message_id
from windrow.outbox.claims.indexes import index_statements, missing_indexes
from windrow.outbox.claims.opening import InvalidAddress
from windrow.outbox.claims.reasons import storable
from windrow.outbox.claims.sql import ClaimStatements
from windrow.outbox.dialects.names import MYSQL, SQLITE, Dialect
from windrow.outbox.errors import LedByOthers, NoLongerShared, PostgresOnly, SharedByOthers
from windrow.outbox.table import Table

OUTBOX = UUID("6f1c7b46-3a0e-4e0a-9b5e-0c2a4f1d2e3f")


def test_message_id_depends_on_the_outbox_and_the_row_and_on_nothing_else() -> None:
    assert message_id(OUTBOX, 1) == "022c3260-3a99-5bcf-a9e6-726a3fc54afd"
    assert message_id(OUTBOX, 1) == message_id(OUTBOX, 1, [("trace", "x")])
    assert len({message_id(OUTBOX, 1), message_id(OUTBOX, 2), message_id(uuid4(), 1)}) == 3


@given(st.text())
def test_every_reason_can_be_stored(text: str) -> None:
    kept = storable(text)
    assert "\x00" not in kept
    kept.encode()
    assert storable(kept) == kept


@given(name=st.text("ab`\"' %", min_size=1, max_size=8))
@pytest.mark.parametrize("dialect", [MYSQL, SQLITE])
def test_name_of_a_table_stays_one_name(dialect: Dialect, name: str) -> None:
    sign = dialect.quote("x")[0]
    inside = dialect.quote(name)[1:-1]
    assert sign not in inside.replace(2 * sign, "")
    assert inside.replace(2 * sign, sign) == name


@pytest.mark.parametrize("dialect", [MYSQL, SQLITE])
def test_statements_have_as_many_parameters_as_marks(dialect: Dialect) -> None:
    statements = ClaimStatements(dialect, Table("a%s?" if dialect is MYSQL else "a"))
    token = uuid4()
    for statement in (
        statements.is_due(token, [], NOBODY),
        statements.is_due(token, ["a", "b"], Suspects(attempts=2, limit=1)),
        *statements.due(5, token, ["a", "b"], Suspects(attempts=2, limit=1)),
        statements.take(token, [1, 2], 3.0),
        statements.ours(token, [1, 2]),
        statements.purge([1, 2]),
        statements.renew([1], 3.0),
        statements.release(token, [1]),
    ):
        marks = statement.sql.replace("%%", "").count(dialect.mark)
        assert marks == len(statement.parameters), statement.sql


def test_indexes_are_named_after_the_table_and_lie_in_its_schema() -> None:
    table = Table("box", "shop")
    statements = index_statements(table)
    assert statements[0].startswith('CREATE INDEX IF NOT EXISTS "box_untried" ON "shop"."box" (id)')
    assert missing_indexes({"box_topics"}, table) == ["box_untried", "box_again"]
    assert missing_indexes(set(missing_indexes(set(), table)), table) == []


@pytest.mark.parametrize("dsn", ["", "oracle://me:q7pass@host/db", "mysql://me:q7/pass@host/db"])
def test_address_that_is_none_is_refused_and_not_quoted(dsn: str) -> None:
    with pytest.raises(InvalidAddress) as refused:
        open_claims(dsn, Table())
    assert isinstance(refused.value, UsageError)
    assert "q7" not in str(refused.value)


def test_refusals_say_what_to_do() -> None:
    assert "stop it first" in str(LedByOthers("outbox", "relay 'a' leads it", "stop it first"))
    assert str(SharedByOthers("outbox", "DELETE FROM x")).endswith("then run: DELETE FROM x")
    assert "Stop this relay" in str(NoLongerShared("outbox"))
    assert "--grants is for an outbox in PostgreSQL" in str(PostgresOnly("--grants", "SQLite"))
