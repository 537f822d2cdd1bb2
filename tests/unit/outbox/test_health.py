from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from windrow.outbox import Table
from windrow.outbox.health import (
    EXTENSION_COLUMNS,
    GOHARVEST_COLUMNS,
    Column,
    Facts,
    Holder,
    Index,
    Sequence,
    judge,
)
from windrow.outbox.schema import COMPANIONS, migrations

HEALTHY = Facts(
    exists=True,
    companions=frozenset(COMPANIONS),
    applied=frozenset(step.number for step in migrations()),
    options={
        "fillfactor": "45",
        "autovacuum_vacuum_scale_factor": "0",
        "autovacuum_vacuum_threshold": "5000",
    },
    columns={
        name: Column("bigint" if name == "id" else "text")
        for name in (*GOHARVEST_COLUMNS, *EXTENSION_COLUMNS)
    },
    sequence=Sequence("outbox_id_seq"),
    indexes=(Index("outbox_pkey", True, "id", frozenset({"id"})),),
    settings={"wal_level": "replica", "autovacuum": "on"},
)


def found(**changes: Any) -> list[tuple[str, str]]:
    findings = judge(Table(), replace(HEALTHY, **changes), migrations())
    assert all(finding.next for finding in findings)
    return [(finding.level, finding.subject) for finding in findings]


def test_nothing_is_found_where_all_is_as_it_should_be() -> None:
    assert found() == []


def holder(kind: Any, *, seconds: float | None = None, **rest: Any) -> Holder:
    facts = {"name": "x", "state": "idle", "is_active": True, "transactions": 10, **rest}
    return Holder(kind=kind, seconds=seconds, **facts)


@pytest.mark.parametrize(
    ("who", "level"),
    [
        (holder("transaction", seconds=299.0), None),
        (holder("transaction", seconds=300.0), "problem"),
        (holder("prepared", seconds=299.0), None),
        (holder("prepared", seconds=3_000.0), "problem"),
        (holder("slot"), None),
        (holder("slot", is_active=False), "problem"),
        (holder("slot", transactions=2_000_000), "advice"),
        (holder("standby"), None),
        (holder("standby", transactions=2_000_000), "advice"),
        (holder("decoder"), None),
        (holder("decoder", is_active=False), "advice"),
    ],
)
def test_who_holds_the_horizon_is_told_once_it_does_harm(who: Holder, level: str | None) -> None:
    assert [finding[0] for finding in found(holders=(who,))] == ([level] if level else [])


def test_problems_come_before_advice_and_notes() -> None:
    findings = found(
        settings={"wal_level": "logical", "autovacuum": "off"},
        options={},
        sequence=Sequence("s", cache=10, increment=-1, cycles=True),
        sees_others=False,
    )
    levels = [level for level, _ in findings]
    assert levels == sorted(levels, key=["problem", "advice", "note"].index)
    assert levels.count("problem") == 4
    assert ("note", "wal_level") in findings
    assert ("note", "other sessions") in findings


def test_a_missing_column_is_told_only_if_no_step_will_bring_it() -> None:
    stock = {name: HEALTHY.columns[name] for name in GOHARVEST_COLUMNS}
    assert found(columns=stock, applied=frozenset(), companions=frozenset()) == [
        ("problem", "migrations")
    ]
    assert ("problem", "column attempts") in found(columns=stock)
    without_key = {name: column for name, column in stock.items() if name != "kafka_key"}
    assert ("problem", "column kafka_key") in found(columns=without_key, applied=frozenset())


def test_a_topic_may_have_kafkas_own_limit_and_no_less() -> None:
    for length, findings in ((249, []), (248, [("note", "column kafka_topic")])):
        columns = {**HEALTHY.columns, "kafka_topic": Column("character varying", length)}
        assert found(columns=columns) == findings


def test_the_next_command_names_the_table_as_a_shell_would_take_it() -> None:
    (finding,) = judge(Table("it's", "out.box"), Facts(exists=False), migrations())
    assert finding.next == """windrow init --table '"out.box"."it'"'"'s"'"""
