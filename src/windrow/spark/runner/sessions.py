"""What does a graph need of a session: the settings, and what its workers import?"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from windrow.config import Config
from windrow.embedded.directory import create_directory, remove_directory
from windrow.graph.declaration import Graph
from windrow.spark.runner.shipping import ship
from windrow.spark.session import build_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Session: TypeAlias = SparkSession

_STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"


@contextlib.contextmanager
def open_session(graph: Graph, config: Config, modules: Sequence[str] = ()) -> Iterator[Session]:
    """A session for a graph, with what its workers need; gone afterwards.

    Args:
        graph: Which.
        config: Where Spark runs, and with which settings.
        modules: Files of the graph's own functions.
    """
    # It tells of every connection that it closes, as if that were news.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop_timeout = str(int(config.graph.stop_timeout * 1000))
    conf = {_STOP_TIMEOUT: stop_timeout, **config.graph.spark_conf}
    session = build_session(
        f"windrow graph {graph.id}", config.graph.master, needs_connector(graph), conf
    )
    directory = create_directory("graph")
    try:
        ship(
            session,
            directory,
            py_files=[*modules, *config.graph.py_files],
            archives=config.graph.archives,
        )
        yield session
    finally:
        stop_session(session)
        remove_directory(directory)


def needs_connector(graph: Graph) -> bool:
    """Whether Spark's own connector of Kafka is used; the jars of it are fetched the first time."""
    return any(queue.spark == "kafka" for queue in graph.all_queues)
