from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph import shapes
from tests.unit.graph.shapes import few, made, outlines
from windrow.config import SeveralMistakes
from windrow.errors import ConfigError, InvalidValue, UnknownKey, UnreadableConfig
from windrow.graph import Graph, InvalidGraph, Retry, Source, processor
from windrow.graph.errors import NotPlainData, UnknownFunction, UnnamedFunction
from windrow.graph.file import document_of, graph_of, load_graph, to_toml, to_yaml
from windrow.graph.outline import Outline
from windrow.graph.references import load_function
from windrow.graph.toml_text import toml_text

HERE = "tests.unit.graph.shapes"
TOML = f"""
id = "shop"
sources = ["orders"]
errors = "failed"
strategy = "at-least-once"
queue_meta = ["time", "t"]
retry = {{attempts = "unlimited", backoff = "250ms", max_backoff = "1m30s"}}

[system]
region = "eu"

[queues.orders]
outbox = "outbox"

[queues.priced]
postgres = "priced"
meta = "strip"
options = {{key = ["id"]}}

[processors.price]
function = "{HERE}:price"
reads = {{orders = "orders"}}
writes = "priced"
types = "order.placed"
where = "{HERE}:is_large"
strategy = "exactly-once"
"""
YAML = f"""
id: shop
sources: [orders]
processors:
  price: {{function: "{HERE}:price", reads: orders, writes: priced}}
"""


def refused(content: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as raised:
        graph_of({"id": "shop", "sources": ["orders"], **content}, "shop.toml")
    return str(raised.value)


def test_a_file_says_all_that_python_can(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(TOML)
    graph = load_graph(path)
    pricing = graph.processor("price")
    assert pricing.function is shapes.price.function
    assert pricing.filter.where is shapes.is_large
    assert pricing.filter.types == frozenset({"order.placed"})
    assert graph.strategy_of(pricing) == "exactly-once"
    assert graph.retry == Retry(None, 0.25, 90.0)
    assert graph.system == {"region": "eu"}
    assert graph.queue_meta == ("t", "time")
    assert graph.queue("priced").options == {"key": ["id"]}


def test_yaml_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(YAML)
    declared = Graph("shop", [Source("orders"), replace(shapes.price, filter=made("x").filter)])
    assert load_graph(path) == declared


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableConfig):
        load_graph(tmp_path / "none.toml")


def test_an_unknown_key_is_told_with_the_nearest_one() -> None:
    part = {"function": f"{HERE}:keep", "reads": "orders"}
    told = refused({"processors": {"p": {**part, "write": "x"}}})
    assert (
        told == 'unknown key "processors.p.write" in shop.toml; did you mean "processors.p.writes"?'
    )
    told = refused({"queues": {"orders": {"kafak": "x"}}, "processors": {"p": part}})
    assert (
        told
        == 'unknown key "queues.orders.kafak" in shop.toml; did you mean "queues.orders.kafka"?'
    )
    told = refused({"retry": {"attempt": 3}, "processors": {"p": part}})
    assert told == 'unknown key "retry.attempt" in shop.toml; did you mean "retry.attempts"?'
    told = refused({"processors": {"p": {**part, "retry": {"backof": "1s"}}}})
    assert told.endswith('did you mean "processors.p.retry.backoff"?')


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"reads": 3}, '"processors.p.reads" in shop.toml is 3: give the name of a queue'),
        ({"strategy": "once"}, '"processors.p.strategy" in shop.toml is "once": input should be '),
        ({"retry": {"backoff": 2}}, '"processors.p.retry.backoff" in shop.toml is 2: has no unit'),
        ({"retry": {"attempts": 0}}, '"processors.p.retry.attempts" in shop.toml is 0: '),
        (
            {"types": [1]},
            '"processors.p.types" in shop.toml is [1]: give a text or a list of texts',
        ),
        ({"function": "nowhere:f"}, '"processors.p.function" in shop.toml is "nowhere:f": there'),
        ({"where": "shop"}, '"processors.p.where" in shop.toml is "shop": write it as'),
    ],
)
def test_a_wrong_value_is_told_with_its_key_and_file(
    settings: dict[str, Any], sentence: str
) -> None:
    part = {"function": f"{HERE}:keep", "reads": "orders", **settings}
    assert refused({"processors": {"p": part}}).startswith(sentence)


def test_a_processor_without_a_function_is_told() -> None:
    told = refused({"processors": {"p": {"reads": "orders"}}})
    assert told == '"processors.p.function" in shop.toml is missing: it is needed'


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    with pytest.raises(SeveralMistakes) as raised:
        graph_of({"id": "shop", "sorces": [], "processors": {"p": {"function": 3}}}, "shop.toml")
    assert {type(mistake) for mistake in raised.value.mistakes} == {UnknownKey, InvalidValue}


def test_a_file_whose_graph_cannot_run_is_refused_like_any_other() -> None:
    part = {"function": f"{HERE}:keep", "reads": "nowhere"}
    with pytest.raises(InvalidGraph, match='processor "p" reads "nowhere", which nothing writes'):
        graph_of({"id": "shop", "processors": {"p": part}}, "shop.toml")


def test_a_value_in_an_error_hides_its_password() -> None:
    told = refused({"queues": {"orders": {"http": ["https://me:hunter2@example.org/"]}}})
    assert "hunter2" not in told


@few
@given(outlines())
def test_a_graph_written_and_read_again_is_the_same(outline: Outline) -> None:
    graph = Graph(**vars(outline))
    for content in (
        document_of(graph),
        tomllib.loads(to_toml(graph)),
        yaml.safe_load(to_yaml(graph)),
    ):
        assert graph_of(content, "round trip") == graph


plain = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), plain, max_size=4))
def test_whatever_is_plain_is_written_as_toml_that_reads_the_same(content: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(content)) == content


def test_what_a_file_cannot_hold_is_told_with_its_key() -> None:
    graph = Graph("shop", [Source("orders"), made("p", reads="orders", options={"x": object()})])
    with pytest.raises(NotPlainData, match=r'"processors\.p\.options\.x" holds a object'):
        to_toml(graph)
    with pytest.raises(NotPlainData, match="holds a object"):
        to_yaml(graph)


def test_a_function_without_a_name_of_its_own_cannot_be_written_down() -> None:
    @processor(reads="orders")
    def inner(msgs: object, ctx: object) -> None: ...

    with pytest.raises(UnnamedFunction, match="inner cannot be named in a file"):
        document_of(Graph("shop", [Source("orders"), inner]))


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("shop", 'write it as "module:function"'),
        (":f", 'write it as "module:function"'),
        ("no_such_module.at_all:f", "there is no module 'no_such_module'"),
        (f"{HERE}:nothing", f"'{HERE}' has no 'nothing'"),
        (f"{HERE}:ANY_STRATEGY", "it is a tuple, not a function"),
        ("..shop:f", 'write it as "module:function"'),
    ],
)
def test_a_function_that_is_not_there_is_told(reference: str, reason: str) -> None:
    with pytest.raises(UnknownFunction, match="cannot load the function") as raised:
        load_function(reference)
    assert reason in str(raised.value)
