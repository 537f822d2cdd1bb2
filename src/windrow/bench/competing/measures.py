"""What is measured of competing relays, and the goals they are held to."""

from __future__ import annotations

import time
from dataclasses import dataclass

from windrow.bench.competing.seed_loop import seed_rate
from windrow.bench.competing.stage import Stage, stage
from windrow.bench.interleave import interleave
from windrow.bench.measurement import Figure, at_least, at_most
from windrow.bench.parts import Progress
from windrow.bench.processor_time import cpu_seconds

IDLE_FOR = 10.0


@dataclass(frozen=True, slots=True)
class Drain:
    """One drained backlog: messages a second, and microseconds of the relays for each."""

    rate: float
    cpu: float


def measure(quick: bool, progress: Progress) -> list[Figure]:
    """Drains by one relay and by two in turn, a naive loop beside them, and an idle relay."""
    rows, rounds = (4_000, 1) if quick else (20_000, 5)
    progress(0.0, "starting PostgreSQL and a receiver")
    with stage() as on:
        singles: list[Drain] = []
        progress(0.1, f"posting {rows:,} messages, {rounds} rounds of one relay and of two")

        def one() -> float:
            singles.append(drain(on, rows, 1))
            return singles[-1].rate

        both = interleave(lambda: drain(on, rows, 2).rate, one, rounds)
        progress(0.7, "a loop that takes one row and sleeps")
        naive = tuple(seed_rate(on, 200) for _ in range(min(rounds, 3)))
        progress(0.8, "idle")
        idle = tuple(idle_statements(on) for _ in range(1 if quick else 3))
    return [
        Figure("post, one relay", "messages/s", both.second, at_least(1_500)),
        Figure("post, one relay, CPU", "µs/message", tuple(d.cpu for d in singles)),
        Figure("post, two relays", "messages/s", both.first),
        Figure("post, two relays to one", "ratio", both.ratios, at_least(1.5)),
        Figure("post, a row at a time with 10 ms of sleep", "messages/s", naive),
        Figure("idle, statements", "1/s", idle, at_most(2)),
    ]


def drain(on: Stage, rows: int, relays: int) -> Drain:
    """Fill, let them go, and wait until each message has come once and no row is left."""
    with on.relays(relays) as running:
        on.fill(100)
        on.go()
        on.wait_until_delivered(100)  # connected, and the way is known
        on.fill(rows)
        before = sum(cpu_seconds(child.pid) for child in running)
        began = time.perf_counter()
        on.go()
        on.wait_until_delivered(rows)
        seconds = time.perf_counter() - began
        cpu = sum(cpu_seconds(child.pid) for child in running) - before
    return Drain(rows / seconds, cpu / rows * 1e6)


def idle_statements(on: Stage) -> float:
    """Statements a second of a relay that has had nothing to do for a while."""
    on.fill(1)
    with on.relays(1):
        on.go()
        on.wait_until_delivered(1)
        time.sleep(3.0)  # it slows down by and by: only then it is idle
        before = _transactions(on)
        time.sleep(IDLE_FOR)  # the span that is measured
        mine = 2  # each look is two statements, one of them before it counts
        return (_transactions(on) - before - mine) / IDLE_FOR


def _transactions(on: Stage) -> int:
    on.connection.execute("SELECT pg_stat_force_next_flush()")
    (count,) = on.connection.execute(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database"
        " WHERE datname = current_database()"
    ).fetchone()
    return int(count)
