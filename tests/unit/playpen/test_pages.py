from __future__ import annotations

import re

import pytest

from windrow.playpen.gaps import compare, parse_ids
from windrow.playpen.openapi import PRODUCER, RECEIVER, Description, describe, docs_page
from windrow.playpen.web import read_page


@pytest.mark.parametrize("name", ["producer.html", "receiver.html"])
def test_page_asks_nobody_but_its_own_service(name: str) -> None:
    page = read_page(name)
    assert "{{" not in page
    assert not re.search(r"https?://|\bsrc=|@import|url\(", page)


@pytest.mark.parametrize("service", [PRODUCER, RECEIVER])
def test_docs_name_every_operation_and_need_nothing_else(service: Description) -> None:
    page = docs_page(describe(service))
    for operation in service.operations:
        assert f"{operation.method} {operation.path}<" in page
    assert not re.search(r"https?://|\bsrc=", page)


@pytest.mark.parametrize("service", [PRODUCER, RECEIVER])
def test_every_answer_is_described(service: Description) -> None:
    document = describe(service)
    assert document["openapi"] == "3.1.0"
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["responses"]


class Nothing:
    def missing(self, ids: list[str]) -> list[str]:
        return [id for id in ids if id != "there"]


def test_gaps_are_counted_for_each_way() -> None:
    heroes = [
        {"via": "outbox", "messageId": "there"},
        {"via": "sync", "messageId": "lost"},
        {"via": "sync", "messageId": "there"},
    ]
    found = compare(Nothing(), heroes)  # type: ignore[arg-type]  # a list is iterable enough
    assert found["outbox"] == {"expected": 1, "arrived": 1, "missing": 0, "examples": []}
    assert found["sync"] == {"expected": 2, "arrived": 1, "missing": 1, "examples": ["lost"]}
    assert parse_ids(b'{"ids": ["a"]}') == ["a"]
