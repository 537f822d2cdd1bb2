"""What is measured of the relay, and the goals it is held to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import median

from windrow.bench.calm import CalmRounds
from windrow.bench.measurement import Figure, at_least, at_most
from windrow.bench.parts import Progress
from windrow.bench.relay.drains import Bare, Drain, bare_sql, drain
from windrow.bench.relay.hard_times import Succession, cost, stop, succession, worst_mark
from windrow.bench.relay.live import delays, idle
from windrow.bench.relay.stage import Settings, Stage, stage
from windrow.bench.yardstick import fixed_work
from windrow.embedded.process import Child

BARRIER = {"relay.mode": "barrier"}
DIFF = {"relay.mode": "barrier", "relay.reader": "diff"}
TRANSACTIONAL = {"relay.mode": "transactional"}
MODES = {"barrier": BARRIER, "diff": DIFF, "transactional": TRANSACTIONAL}
NELI = {**BARRIER, "relay.election.kind": "neli"}
KILLED: dict[str, tuple[Settings, float]] = {
    "barrier": (BARRIER, 3_000),
    "transactional": (TRANSACTIONAL, 3_000),
    "elected by Kafka": (NELI, 15_000),
}
"""How leaders are killed, and within how many milliseconds another has to be heard: with a lease in
three seconds, with NELI within its session."""
ROWS = 240_000
KEYS = 1_000
ROUNDS = 5
"""Of what is quick. The machine's speed moves between them, so what is compared takes turns."""


def measure(quick: bool, progress: Progress) -> list[Figure]:
    """Drains, hot keys, delays and idleness, each mode in turn within a round."""
    progress(0.0, "starting PostgreSQL and Kafka")
    with stage() as on:
        return _quick(on, progress) if quick else _full(on, progress)


def _quick(on: Stage, progress: Progress) -> list[Figure]:
    rows = 60_000
    progress(0.2, f"draining {rows:,} rows, barrier mode")
    barrier = [drain(on, rows, KEYS, BARRIER)]
    progress(0.6, f"draining {rows:,} rows, transactional mode")
    transactional = [drain(on, rows, KEYS, TRANSACTIONAL)]
    return [
        *_drained("barrier", barrier, 30_000),
        *_drained("transactional", transactional, 40_000),
    ]


@dataclass(frozen=True)
class _Round:
    """What is compared is measured in one round."""

    work: float
    drains: dict[str, Drain]
    bare: Bare


def _full(on: Stage, progress: Progress) -> list[Figure]:
    calm = CalmRounds()
    for name, settings in MODES.items():
        # A broker compiles its hot code during its first minutes, which takes a quarter of the
        # machine: a cluster that has been up for a while does not.
        progress(0.0, f"warming up the broker: draining {ROWS:,} rows, {name}")
        drain(on, ROWS, KEYS, settings)
    rounds = calm(ROUNDS, lambda number: _round(on, number, progress))
    progress(0.6, "one hot key")
    hot = calm(ROUNDS, lambda _: drain(on, 3_000, 1, BARRIER).rate)
    hot_transactional = calm(ROUNDS, lambda _: drain(on, 120_000, 1, TRANSACTIONAL).rate)
    drains = {name: [one.drains[name] for one in rounds] for name in MODES}
    return [
        *_drained("barrier", drains["barrier"], 30_000),
        *_drained("diff", drains["diff"], None),
        *_drained("transactional", drains["transactional"], 40_000),
        Figure(
            "drain, barrier, of the same SQL alone",
            "ratio",
            tuple(one.drains["barrier"].rate / one.bare.rate for one in rounds),
            at_least(0.6),
        ),
        Figure(
            "the same SQL alone, PostgreSQL CPU",
            "µs/record",
            tuple(one.bare.postgres_cpu for one in rounds),
        ),
        Figure(
            "drain, barrier, rows per purge",
            "rows",
            tuple(d.rows_per_purge for d in drains["barrier"]),
            at_least(200),
        ),
        Figure("a fixed piece of work, before each round", "ms", tuple(one.work for one in rounds)),
        Figure("one hot key, barrier", "records/s", tuple(hot), at_least(900)),
        Figure(
            "one hot key, transactional", "records/s", tuple(hot_transactional), at_least(40_000)
        ),
        *_live(on, calm, progress),
        *_hard_times(on, calm, progress),
        # Last, since they speak of all of it.
        Figure("drains, records that came twice", "records", (on.repeats,), at_most(0)),
        *calm.figures(),
    ]


def _round(on: Stage, number: int, progress: Progress) -> _Round:
    drains: dict[str, Drain] = {}
    work = fixed_work()
    for name, settings in MODES.items():
        what = f"round {number + 1} of {ROUNDS}: draining {ROWS:,} rows, {name}"
        progress(0.6 * number / ROUNDS, what)
        drains[name] = drain(on, ROWS, KEYS, settings)
        if settings is BARRIER:
            # At once: the machine may be another one by the end of the round.
            bare = bare_sql(on, ROWS, KEYS)
    return _Round(work, drains, bare)


def _hard_times(on: Stage, calm: CalmRounds, progress: Progress) -> list[Figure]:
    progress(0.85, "leaving while records come in")
    stops = calm(ROUNDS, lambda _: succession(on, 300, 8.0, BARRIER, stop))
    progress(0.86, "killed while records come in")
    kills = {
        name: calm(ROUNDS, partial(_killed, on, settings)) for name, (settings, _) in KILLED.items()
    }
    progress(0.88, "300,000 rows with vacuum blocked")
    marks = calm(ROUNDS, lambda _: worst_mark(on, 300_000, KEYS, BARRIER))
    progress(0.92, "3,000,000 rows, between drains of 10,000")
    ratios = (_large_to_small(on),)
    return [
        Figure("clean hand-over, silence", "ms", _silences(stops), at_most(1_000)),
        Figure("clean hand-over, repeats", "records", _repeats(stops), at_most(0)),
        *chain.from_iterable(_succeeded(name, kills[name]) for name in KILLED),
        Figure("worst mark, vacuum blocked", "s", tuple(marks), at_most(1)),
        Figure("cost of a record, 3M backlog to 10k", "ratio", ratios, at_most(1.2)),
    ]


def _killed(on: Stage, settings: Settings, _: int) -> Succession:
    return succession(on, 300, 8.0, settings, Child.kill)


def _succeeded(how: str, kills: list[Succession]) -> list[Figure]:
    settings, within = KILLED[how]
    title = f"take-over after kill -9, {how}"
    may_repeat = at_most(0) if settings is TRANSACTIONAL else None
    return [
        Figure(f"{title}, silence", "ms", _silences(kills), at_most(within)),
        Figure(f"{title}, repeats", "records", _repeats(kills), may_repeat),
    ]


def _silences(seen: list[Succession]) -> tuple[float, ...]:
    return tuple(one.silence for one in seen)


def _repeats(seen: list[Succession]) -> tuple[float, ...]:
    return tuple(one.repeats for one in seen)


def _large_to_small(on: Stage) -> float:
    before = cost(on, 10_000, KEYS, 5, BARRIER)
    large = cost(on, 3_000_000, KEYS, 1, BARRIER)
    return large / median((before, cost(on, 10_000, KEYS, 5, BARRIER)))


def _drained(name: str, drains: list[Drain], goal: float | None) -> list[Figure]:
    postgres_goal = {"barrier": 18.0, "diff": 11.0}.get(name)
    return [
        Figure(
            f"drain, {name}",
            "records/s",
            tuple(d.rate for d in drains),
            None if goal is None else at_least(goal),
        ),
        Figure(
            f"drain, {name}, relay CPU",
            "µs/record",
            tuple(d.relay_cpu for d in drains),
            at_most(20),
        ),
        Figure(
            f"drain, {name}, PostgreSQL CPU",
            "µs/record",
            tuple(d.postgres_cpu for d in drains),
            None if postgres_goal is None else at_most(postgres_goal),
        ),
    ]


def _live(on: Stage, calm: CalmRounds, progress: Progress) -> list[Figure]:
    figures = []
    cases = [
        ("barrier", 300, BARRIER, 4.0),
        ("barrier", 1_000, BARRIER, 8.0),
        ("transactional", 300, TRANSACTIONAL, 20.0),
    ]
    for n, (name, rate, settings, goal) in enumerate(cases):
        progress(0.7 + 0.07 * n, f"delay at {rate} a second, {name}")
        rounds = calm(ROUNDS, partial(_delays, on, rate, settings))
        title = f"commit to consumer, {name}, {rate}/s"
        figures += [
            Figure(f"{title}, p50", "ms", tuple(p50 for p50, _ in rounds), at_most(goal)),
            Figure(f"{title}, p99", "ms", tuple(p99 for _, p99 in rounds)),
        ]
    for name, settings in (("barrier", BARRIER), ("transactional", TRANSACTIONAL)):
        progress(0.95, f"idle, {name}")
        idles = [idle(on, 10.0, settings) for _ in range(3)]
        figures += [
            Figure(f"idle, {name}, statements", "1/s", tuple(s for s, _ in idles), at_most(2)),
            Figure(f"idle, {name}, relay CPU", "%", tuple(c for _, c in idles), at_most(1)),
        ]
    return figures


def _delays(on: Stage, rate: int, settings: Settings, _: int) -> tuple[float, float]:
    return delays(on, rate, 10.0, settings)
