"""The text of a source: what it means, and how a mistake in it is told."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.verify.errors import BadSource
from windrow.verify.grammar import (
    KINDS,
    FileSpec,
    JournalSpec,
    KafkaSpec,
    ReceiverSpec,
    SqlSpec,
    TableSpec,
    parse_source,
)
from windrow.verify.picking import Pick, follow, parse_pick

ID = Pick("json", path=("id",))


def test_a_query_is_taken_as_it_is_but_for_its_last_semicolon() -> None:
    text = "sql: SELECT team, id FROM t WHERE a = '?x=1' ;"
    assert parse_source(text) == SqlSpec(text, "SELECT team, id FROM t WHERE a = '?x=1'")


@pytest.mark.parametrize("query", ["DELETE FROM t", "selection", "UPDATE t SET a = 1"])
def test_what_is_no_query_is_refused(query: str) -> None:
    with pytest.raises(BadSource, match="begins with SELECT"):
        parse_source(f"sql:{query}")


def test_a_table_is_ordered_by_its_id_unless_it_is_said_otherwise() -> None:
    assert parse_source("table:shop.orders?key=team") == TableSpec(
        "table:shop.orders?key=team", "shop.orders", "team", "id", "id"
    )
    spec = parse_source("table:orders?key=none&id=uuid&order=at,seq")
    assert isinstance(spec, TableSpec)
    assert (spec.key, spec.id, spec.order) == (None, "uuid", "at,seq")


def test_a_path_may_hold_anything_percent_encoded() -> None:
    spec = parse_source("jsonl:a%3Fb.jsonl?id=/a~1b/c")
    assert spec == FileSpec(
        "jsonl:a%3Fb.jsonl?id=/a~1b/c",
        "a?b.jsonl",
        Pick("json", path=("key",)),
        Pick("json", path=("a/b", "c")),
    )


def test_a_ledger_knows_where_everything_is() -> None:
    assert parse_source("ledger:/x/y") == FileSpec("ledger:/x/y", "/x/y")


def test_messages_have_their_key_and_the_id_in_their_value_unless_it_is_said_otherwise() -> None:
    assert parse_source("kafka:orders") == KafkaSpec("kafka:orders", "orders", Pick("key"), ID)
    spec = parse_source("kafka:orders?id=header:message-id&key=json:/team")
    assert isinstance(spec, KafkaSpec)
    assert (spec.key, spec.id) == (Pick("json", path=("team",)), Pick("header", "message-id"))


def test_a_journal_that_ends_with_a_slash_is_all_below_it() -> None:
    assert parse_source("journal:a/b") == JournalSpec("journal:a/b", "a/b", False, None, None)
    spec = parse_source("journal:a/?id=key")
    assert spec == JournalSpec("journal:a/?id=key", "a/", True, None, Pick("key"))


def test_a_receiver_is_asked_for_its_messages() -> None:
    text = "receiver:http://127.0.0.1:3001/"
    assert parse_source(text) == ReceiverSpec(
        text, "http://127.0.0.1:3001/messages", Pick("none"), ID
    )
    spec = parse_source("receiver:http://host/list?key=/payload/team")
    assert isinstance(spec, ReceiverSpec)
    assert (spec.url, spec.key.path) == ("http://host/list", ("payload", "team"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders", "it begins with none of sql:"),
        ("jsnl:x", r'did you mean "jsonl:"\?'),
        ("kafka:", "nothing follows kafka:"),
        ("sql:  ", "nothing follows sql:"),
        ("kafka:a b", "'a b' is not the name of a topic"),
        ("kafka:a?id", "'id' is not an option"),
        ("kafka:a?id=", "'id=' is not an option"),
        ("kafka:a?id=key&id=value", "each once"),
        ("kafka:a?id=none", "records without an id cannot be compared"),
        ("kafka:a?id=body", "'body' is not one of key, value, header:NAME"),
        ("kafka:a?id=/a//b", "'/a//b' has an empty part"),
        ("kafka:a?order=x", "it takes no option 'order'"),
        ("ledger:x?id=/id", "it takes no option 'id'"),
        ("jsonl:x?id=key", "a line has members only"),
        ("receiver:ftp://x", "write it as receiver:http://host:port"),
        ("receiver:3001", "write it as receiver:http://host:port"),
    ],
)
def test_a_mistake_is_told_with_what_to_write(text: str, reason: str) -> None:
    with pytest.raises(BadSource, match=reason) as told:
        parse_source(text)
    assert "windrow verify --help" in str(told.value)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadSource) as told:
        parse_source("receiver:http://me:hunter2@host")
    assert "hunter2" not in str(told.value)


@given(st.text(max_size=40) | st.builds("{}:{}".format, st.sampled_from(KINDS), st.text()))
def test_any_text_is_a_source_or_a_diagnosis(text: str) -> None:
    with contextlib.suppress(BadSource):
        assert parse_source(text).text == text


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_a_pointer_leads_to_the_member_it_was_made_for(path: list[str]) -> None:
    escaped = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
    document: object = "found"
    for part in reversed(path):
        document = {part: document}
    assert follow(document, parse_pick(escaped).path) == "found"
    assert follow("no object", parse_pick(escaped).path) is None
