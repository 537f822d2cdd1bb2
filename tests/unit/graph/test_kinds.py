from __future__ import annotations

from typing import Any

import pytest

from tests.unit.graph.shapes import made
from windrow.graph import Kind, Source


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ({"reads": "a", "writes": "b"}, Kind.PIPE),
        ({"reads": "a", "writes": "b", "many": True}, Kind.EXPAND),
        ({"reads": ["a", "b"], "writes": "c"}, Kind.JOIN),
        ({"reads": ["a", "b"], "writes": "c", "many": True}, Kind.JOIN),
        ({"alts": ["a", "b"], "writes": "c"}, Kind.ALTS),
        ({"reads": "a", "writes": ["b", "c"]}, Kind.FORK),
        ({"alts": ["a", "b"], "writes": ["c", "d"]}, Kind.FORK),
        ({"reads": ["a", "b"], "writes": ["c", "d"]}, Kind.JOIN_FORK),
        ({"reads": "a"}, Kind.SINK),
        ({"reads": ["a", "b"]}, Kind.SINK),
        ({"reads": "a", "tailers": "b"}, Kind.IMPERATIVE),
        ({"reads": "a", "writes": "b", "appenders": "c"}, Kind.IMPERATIVE),
        ({"alts": ["a", "b"], "appenders": "c"}, Kind.IMPERATIVE),
    ],
)
def test_the_shape_of_a_processor_decides_its_kind(shape: dict[str, Any], kind: Kind) -> None:
    assert made("p", **shape).kind is kind


def test_a_sink_of_alternatives_is_a_sink_and_not_a_source() -> None:
    """Taken for a source it would never run, and nobody would be told."""
    assert made("p", alts=["a", "b"]).kind is Kind.SINK


def test_a_source_is_a_source() -> None:
    assert Source("orders").kind is Kind.SOURCE
