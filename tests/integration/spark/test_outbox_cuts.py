"""A source is cut off at each of its statements, before and after they are done, and loses nothing.

The query here is Spark's, without Spark: an offset log, a commit log, and a sink that a batch
replaces. Its logs outlive the source, as a checkpoint does; the source begins anew after each cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase
from tests.integration.spark.outboxes import SOURCE, read_values, write
from windrow.embedded.link import Link
from windrow.embedded.link_rules import Action, Chunk, Direction, pass_all
from windrow.errors import Unreachable
from windrow.graph.positions import SourceOffsets, SourcePartition, Span
from windrow.outbox.errors import DatabaseFailed
from windrow.outbox.table import Table
from windrow.spark.outbox import OutboxQueue

MAX_ROWS = 2


@dataclass
class Query:
    """What a query keeps, whatever becomes of its source."""

    offsets: list[Span] = field(default_factory=list)
    commits: int = 0
    sink: dict[int, list[tuple[int, str]]] = field(default_factory=dict)

    def run(self, queue: OutboxQueue) -> None:
        """Batch by batch, to the end."""
        while self._plan(queue):
            batch, span = self.commits, self.offsets[self.commits]
            rows = read_values(queue, span)
            assert self.sink.setdefault(batch, rows) == rows, "a replay gives the same rows"
            self.commits += 1

    def _plan(self, queue: OutboxQueue) -> bool:
        """Whether there is a batch to run; one in the offset log is run as it is."""
        if len(self.offsets) > self.commits:
            return True
        indices = queue.indices()
        origin = SourcePartition(SOURCE, indices.incarnation, 0)
        start = self.offsets[-1].end if self.offsets else indices.first
        queue.settled(SourceOffsets.of({origin: start}))
        end = min(queue.reach(start + MAX_ROWS).end, start + MAX_ROWS)
        if end > start:
            self.offsets.append(Span(SOURCE, indices.incarnation, 0, start, end))
        return end > start

    @property
    def delivered(self) -> list[tuple[int, str]]:
        return [row for _, rows in sorted(self.sink.items()) for row in rows]


class CutsAt:
    """Resets the link at the nth chunk of one direction: it is lost, and so is the connection."""

    def __init__(self, nth: int, direction: Direction) -> None:
        self.left, self.direction = nth, direction
        self.has_cut = False

    def __call__(self, chunk: Chunk) -> Action:
        if chunk.direction is self.direction:
            self.left -= 1
            if self.left == 0:
                self.has_cut = True
                return Action.RESET
        return Action.PASS


@pytest.mark.parametrize("direction", list(Direction))
def test_source_cut_off_at_any_statement_delivers_every_row_once(
    outbox: OutboxDatabase, direction: Direction
) -> None:
    """To the service: the statement is never run. To the client: it is, and nobody is told."""
    query, written, cuts = Query(), [], 0
    with Link.start(target_of(outbox.dsn)) as link:
        dsn = through(link, outbox.dsn)
        for nth in range(1, 1000):
            values = [f"{nth}-{n}" for n in range(3)]
            written += values
            write(outbox, *values)
            link.on_bytes = rule = CutsAt(nth, direction)
            run_to_the_end(query, dsn)
            link.on_bytes = pass_all
            cuts += rule.has_cut
            if not rule.has_cut:
                break
    assert cuts > 20
    assert query.delivered == list(enumerate(written))
    assert outbox.count() == 0


def run_to_the_end(query: Query, dsn: str) -> None:
    for _ in range(3):
        queue = OutboxQueue(dsn, Table(), SOURCE)
        try:
            queue.lead("test")
            query.run(queue)
            return
        except (DatabaseFailed, Unreachable):
            continue
        finally:
            queue._ledger.close()  # as if it were killed: it does not resign
    pytest.fail("it was cut off once, and should have come to the end")


def target_of(dsn: str) -> Any:
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(dsn)
    host, port = str(parts["host"]), parts["port"]
    return Path(host) / f".s.PGSQL.{port}" if host.startswith("/") else (host, int(str(port)))


def through(link: Link, dsn: str) -> str:
    from psycopg.conninfo import make_conninfo

    return make_conninfo(dsn, host="127.0.0.1", port=link.port)
