"""One bench for all tests here: a session of Spark takes longer to begin than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.graph.bench import GraphBench, graph_bench

ONLY_IN_SOAK = (
    "test_places.py",
    "test_point_of_a_shape_can_be_struck_in_every_way",
)
"""Minutes each, of which most is Spark coming up again: the suite has not the time."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("soak"):
        return
    long = [item for item in items if _is_long(item.nodeid)]
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=long)


def _is_long(nodeid: str) -> bool:
    return "tests/faults/graph/" in nodeid and any(name in nodeid for name in ONLY_IN_SOAK)


@pytest.fixture(scope="session")
def bench(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GraphBench]:
    with graph_bench(pytestconfig, tmp_path_factory.mktemp("graph")) as bench:
        yield bench
