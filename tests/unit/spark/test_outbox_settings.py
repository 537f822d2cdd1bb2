"""The options of ``windrow-outbox``, and what is told when something is wrong with an outbox."""

from __future__ import annotations

import pickle

import pytest

from windrow.errors import WindrowError
from windrow.outbox.marked import Marked
from windrow.outbox.table import Table
from windrow.spark.formats.errors import InvalidOption, UnknownOption
from windrow.spark.outbox import DividedOutbox, NoDatabase, RowsGone, open_outbox
from windrow.spark.outbox.ledger import Cover
from windrow.spark.outbox.rows import headers_of
from windrow.spark.outbox.settings import settings_of
from windrow.spark.places import Place

DSN = "postgresql://me:hush@db/shop"


def test_options_have_defaults_and_any_case() -> None:
    settings = settings_of({"secret_dsn": DSN})
    assert (settings.table, settings.source) == (Table(), "outbox")
    assert (settings.max_rows, settings.parts, settings.fail_on_data_loss) == (10_000, 1, True)
    given = {
        "secret_dsn": DSN,
        "table": "shop.out",
        "source": "orders",
        "maxrowsperbatch": "7",
        "numPartitions": "3",
        "failondataloss": "False",
    }
    settings = settings_of(given)
    assert (settings.table, settings.source) == (Table("out", "shop"), "orders")
    assert (settings.max_rows, settings.parts, settings.fail_on_data_loss) == (7, 3, False)


def test_password_is_not_in_the_text_of_the_settings() -> None:
    assert "hush" not in repr(settings_of({"secret_dsn": DSN}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, '"secret_dsn" of windrow-outbox is'),
        ({"secret_dsn": "postgresql://me:hu/sh@db"}, '"secret_dsn"'),
        ({"secret_dsn": DSN, "table": "a.b.c"}, "more than two parts"),
        ({"secret_dsn": DSN, "maxRowsPerBatch": "0"}, "at least 1"),
        ({"secret_dsn": DSN, "failOnDataLoss": "perhaps"}, "must be true or false"),
    ],
)
def test_wrong_option_is_refused_with_its_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as caught:
        settings_of(given)
    assert "hu/sh" not in str(caught.value)


def test_option_that_nobody_reads_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownOption, match='did you mean "maxRowsPerBatch"'):
        settings_of({"secret_dsn": DSN, "maxRowPerBatch": "7"})


def test_queue_without_a_database_says_what_to_set() -> None:
    with pytest.raises(NoDatabase, match=r'queue "orders" .* set database\.dsn'):
        open_outbox(Place("orders", "outbox", "out"))


@pytest.mark.parametrize(
    ("keys", "values", "headers"),
    [
        (None, None, []),
        (["a", "b"], ["1", None], [("a", b"1"), ("b", None)]),
        (["a", "b"], ["1"], [("a", b"1"), ("b", None)]),
        (["a"], ["1", "2"], [("a", b"1")]),
    ],
)
def test_headers_are_what_can_be_told_of_the_two_arrays(
    keys: list[str | None] | None,
    values: list[str | None] | None,
    headers: list[tuple[str, bytes | None]],
) -> None:
    record = Marked(1, "t", None, None, keys, values)
    assert [(each["name"], each["value"]) for each in headers_of(record)] == headers


def test_range_is_held_only_as_a_whole() -> None:
    cover = Cover("i", 3, 7)
    assert cover.holds(3, 7)
    assert cover.holds(4, 6)
    assert not cover.holds(2, 6)
    assert not cover.holds(4, 8)
    assert not Cover("i", None, None).holds(3, 7)


@pytest.mark.parametrize(
    "error", [RowsGone("outbox", 2, 5, 9), DividedOutbox("outbox", 3), NoDatabase("q", "outbox")]
)
def test_errors_survive_pickling(error: WindrowError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
