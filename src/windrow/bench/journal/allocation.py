"""How long does a leader think about a large cluster?"""

from __future__ import annotations

import time
from collections.abc import Mapping

from windrow.bench.measurement import Figure, at_most
from windrow.bench.parts import Progress
from windrow.journal.allocation.solve import Solution, solve
from windrow.journal.process import ProcessId

BROKERS = 50
REPLICATION = 3
LIMIT = 1024
GOAL = at_most(10.0)

Rooms = Mapping[ProcessId, int]


def measure_solve(quick: bool, progress: Progress) -> list[Figure]:
    """Assign 10,000 journals to 50 brokers: at first, without one of them, and with one more."""
    journals, repeats = 10_000, 1 if quick else 5
    demands = {f"bench/journal/{n:05}": REPLICATION for n in range(journals)}
    rooms = {_broker(n): LIMIT for n in range(BROKERS)}
    fewer = {broker: LIMIT for broker in rooms if broker != _broker(7)}
    more = {**rooms, _broker(BROKERS): LIMIT}
    anew: list[float] = []
    lost: list[float] = []
    added: list[float] = []
    for n in range(repeats):
        progress(n / repeats, f"assigning {journals:,} journals to {BROKERS} brokers")
        solution = _timed(anew, demands, rooms, {})
        _timed(lost, demands, fewer, solution)
        _timed(added, demands, more, solution)
    cluster = f"{journals:,} journals on {BROKERS} brokers"
    return [
        Figure(f"solution for {cluster}", "s", tuple(anew), GOAL),
        Figure(f"solution for {cluster}, one lost", "s", tuple(lost), GOAL),
        Figure(f"solution for {cluster}, one added", "s", tuple(added), GOAL),
    ]


def _broker(number: int) -> ProcessId:
    return ProcessId("abc"[number % 3], f"broker-{number:02}")


def _timed(
    times: list[float], demands: Mapping[str, int], rooms: Rooms, current: Solution
) -> Solution:
    began = time.perf_counter()
    solution = solve(demands, rooms, current)
    times.append(time.perf_counter() - began)
    assert all(
        len(members) == REPLICATION and len({member.zone for member in members}) > 1
        for members in solution.values()
    ), "a solution that is wrong is not worth timing"
    return solution
