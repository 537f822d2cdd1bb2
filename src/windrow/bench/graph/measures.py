"""What is measured of graphs, and the goals they are held to."""

from __future__ import annotations

from statistics import median

from windrow.bench.graph.memory import resident_bytes
from windrow.bench.graph.pipes import (
    at_least_once_rate,
    batch_times,
    exactly_once_rate,
    join_rate,
    message_delays,
)
from windrow.bench.graph.plain_sink import PlainJournalSink
from windrow.bench.graph.stage import Stage, stage
from windrow.bench.measurement import Figure, at_least, at_most
from windrow.bench.parts import Progress

SIZES = (10_000, 100_000, 1_000_000, 3_000_000)
ROUNDS = {10_000: 9, 100_000: 5, 1_000_000: 3, 3_000_000: 3}
"""Of a short backlog the price of a batch is nearly all, so it takes more to know the rest."""
SHORT = 5
"""Batches of one message each, by which the price of a batch itself is known."""


def measure(quick: bool, progress: Progress) -> list[Figure]:
    """Pipes, joins and single messages on one broker and two cores."""
    progress(0.0, "starting a broker and Spark")
    with stage() as on:
        on.session.dataSource.register(PlainJournalSink)
        progress(0.1, "warming up")
        exactly_once_rate(on, "arrow", 10_000)
        if quick:
            return [_pipe("arrow", [exactly_once_rate(on, "arrow", 100_000)], 30_000)]
        return _full(on, progress)


def _full(on: Stage, progress: Progress) -> list[Figure]:
    count, rounds = 300_000, 5
    arrow, message, plain = [], [], []
    at_least_once_rate(on, 10_000)
    exactly_once_rate(on, "message", 10_000)
    for n in range(rounds):
        progress(0.1 + 0.4 * n / rounds, f"round {n + 1} of {rounds}: {count:,} messages each")
        arrow.append(exactly_once_rate(on, "arrow", count))
        plain.append(at_least_once_rate(on, count))
        message.append(exactly_once_rate(on, "message", count))
    ratios = tuple(ours / theirs for ours, theirs in zip(arrow, plain, strict=True))
    progress(0.5, "joins")
    joins = tuple(join_rate(on, count) for _ in range(3))
    progress(0.6, "single messages")
    delays = message_delays(on, 60)[10:]
    return [
        _pipe("arrow", arrow, 30_000),
        Figure("pipe, at least once, arrow", "messages/s", tuple(plain)),
        Figure("pipe, exactly once, of at least once", "ratio", ratios, at_least(0.7)),
        _pipe("message", message, 15_000),
        Figure("join-fork to two queues", "joins/s", joins, at_least(10_000)),
        Figure("one message through one processor, p50", "ms", (median(delays),), at_most(250)),
        *_flat(on, progress),
    ]


def _pipe(form: str, rates: list[float], goal: float) -> Figure:
    return Figure(f"pipe, exactly once, {form}", "messages/s", tuple(rates), at_least(goal))


def _flat(on: Stage, progress: Progress) -> list[Figure]:
    """What a message costs, and what the driver holds, from short backlogs to long ones.

    A batch has a price of its own, the first one of a query another: they are told by themselves,
    and taken off what the batches of a backlog cost, which leaves what its messages do.
    """
    prices, times, held = _backlogs(on, progress)
    first = median(each[0] for each in prices)
    later = median(time for each in prices for time in each[1:])
    whole, costs = [], []
    for size, rounds in times.items():
        spent = median(map(sum, rounds))
        whole.append(spent * 1000 / size)
        costs.append((spent - first - later * (len(rounds[0]) - 1)) * 1000 / size)
    return [
        Figure("first batch of a query, without its messages", "ms", (first,)),
        Figure("later batch of a query, without its messages", "ms", (later,)),
        *_by_size("cost of a message", costs),
        *_by_size("cost of a message with its batches", whole),
        Figure("cost of a message, furthest from the median", "%", (_spread(costs),), at_most(20)),
        Figure(
            "driver memory after the last of the longest over after the first of the shortest",
            "ratio",
            (held[SIZES[-1]][-1] / held[SIZES[0]][0],),
            at_most(1.2),
        ),
    ]


def _backlogs(
    on: Stage, progress: Progress
) -> tuple[list[list[float]], dict[int, list[list[float]]], dict[int, list[int]]]:
    """Batches of single messages and of backlogs in turns, since a machine's speed moves.

    Returns the times of each, and what the driver held after each backlog.
    """
    prices: list[list[float]] = []
    times: dict[int, list[list[float]]] = {size: [] for size in SIZES}
    held: dict[int, list[int]] = {size: [] for size in SIZES}
    most = max(ROUNDS.values())
    for n in range(most):
        prices.append(batch_times(on, SHORT, batch=1))
        for size in SIZES:
            if n < ROUNDS[size]:
                progress(0.7 + 0.3 * n / most, f"round {n + 1}: a backlog of {size:,}")
                times[size].append(batch_times(on, size))
                held[size].append(resident_bytes())
    return prices, times, held


def _by_size(name: str, costs: list[float]) -> list[Figure]:
    return [
        Figure(f"{name}, backlog of {size:,}", "µs", (cost,))
        for size, cost in zip(SIZES, costs, strict=True)
    ]


def _spread(costs: list[float]) -> float:
    """How far the furthest lies from the one in the middle, in percent of that."""
    middle = median(costs)
    return max(abs(cost - middle) for cost in costs) / middle * 100
