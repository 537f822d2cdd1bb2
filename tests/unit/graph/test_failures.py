from __future__ import annotations

import json

import pytest

from windrow.graph.failures import cause_of, error_context


def failing() -> None:
    with error_context(step="outer", order=7), error_context(step="inner", path=[1, {2}]):
        try:
            raise KeyError("price")
        except KeyError as error:
            raise ValueError("no price") from error


def test_a_failure_is_told_with_its_chain_and_the_facts_added_on_the_way() -> None:
    with pytest.raises(ValueError, match="no price") as raised:
        failing()
    cause = cause_of(raised.value)
    assert cause["chain"] == [
        {"type": "builtins.ValueError", "message": "no price"},
        {"type": "builtins.KeyError", "message": "'price'"},
    ]
    assert cause["trace"][-1].endswith("in failing")
    assert json.loads(json.dumps(cause)) == cause


def test_of_nested_facts_the_inner_win() -> None:
    with pytest.raises(ValueError, match="no price") as raised:
        failing()
    assert cause_of(raised.value)["context"] == {"step": "inner", "order": 7, "path": [1, "{2}"]}


def test_what_ends_the_process_is_not_touched() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, error_context(order=7):
        raise KeyboardInterrupt
    assert cause_of(raised.value)["context"] == {}


def test_a_chain_that_returns_to_itself_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert [link["message"] for link in cause_of(one)["chain"]] == ["one", "other"]
