"""What is measured of the journals, and the goals they are held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from windrow.bench.calm import CalmRounds
from windrow.bench.journal.allocation import measure_solve
from windrow.bench.journal.appends import (
    CHUNK,
    KIBIBYTE,
    MEBIBYTE,
    bulk_rate,
    read_rate,
    record_rate,
    small_appends,
)
from windrow.bench.journal.bare_loop import bare_rate
from windrow.bench.journal.outages import fail_over, idle_cpu
from windrow.bench.journal.stage import Stage, stage
from windrow.bench.measurement import Figure, at_least, at_most
from windrow.bench.parts import Progress

BULK_CHUNKS = 16 * MEBIBYTE // CHUNK
RECORDS_PER_SYNC = 1_000


def measure(quick: bool, progress: Progress) -> list[Figure]:
    """Appends, reads, idleness and fail-over on three brokers, each copy on every disk."""
    progress(0.0, "starting etcd and three brokers")
    with stage() as on:
        figures = _appends(on, quick, progress)
        if not quick:
            figures += _quiet_and_broken(on, progress)
    if not quick:
        progress(0.9, "solving a large cluster")
        figures += measure_solve(quick, lambda done, what: progress(0.9 + 0.1 * done, what))
    return figures


@dataclass(frozen=True)
class _Round:
    """What is compared is measured in one round."""

    bulk: float
    bare_bulk: float
    records: float
    bare_records: float
    eight: float
    one: float
    bare_small: float
    reads: float


def _appends(on: Stage, quick: bool, progress: Progress) -> list[Figure]:
    count = 1 if quick else 5
    calm = CalmRounds()

    def measure_round(number: int) -> _Round:
        progress(0.1 + 0.6 * number / count, f"round {number + 1} of {count}")
        return _round(on, quick)

    rounds = [measure_round(0)] if quick else calm(count, measure_round)
    bulk, bare_bulk = _column(rounds, "bulk"), _column(rounds, "bare_bulk")
    records, bare_records = _column(rounds, "records"), _column(rounds, "bare_records")
    eight, one = _column(rounds, "eight"), _column(rounds, "one")
    bare_small = _column(rounds, "bare_small")
    return [
        Figure("bulk appends of 16 MiB", "MB/s", bulk, at_least(50)),
        _multiple("bulk appends", bulk, bare_bulk),
        Figure("records of 1 KiB, batching client", "records/s", records, at_least(25_000)),
        _multiple("records", records, bare_records),
        Figure("appends of 1 KiB, 8 clients", "appends/s", eight, at_least(800)),
        _multiple("appends of 8 clients", eight, bare_small),
        Figure("append of 1 KiB, 1 client, p50", "ms", one, at_most(4)),
        _multiple("append of 1 client", [1000 / p50 for p50 in one], bare_small),
        Figure("bare write and fsync of 1 KiB", "ms", (1000 / median(bare_small),)),
        Figure("reads from local spools", "MB/s", _column(rounds, "reads"), at_least(200)),
        *([] if quick else calm.figures()),
    ]


def _round(on: Stage, quick: bool) -> _Round:
    seconds = 2.0 if quick else 5.0
    return _Round(
        bulk=bulk_rate(on, 4 if quick else 12),
        bare_bulk=bare_rate(CHUNK, 12 * BULK_CHUNKS, pieces_per_sync=BULK_CHUNKS) * CHUNK / 1e6,
        records=record_rate(on, 20_000 if quick else 100_000),
        bare_records=bare_rate(KIBIBYTE, 100_000, pieces_per_sync=RECORDS_PER_SYNC),
        eight=small_appends(on, 8, seconds)[0],
        one=small_appends(on, 1, seconds)[1],
        bare_small=bare_rate(KIBIBYTE, 500, pieces_per_sync=1),
        reads=read_rate(on, 64 if quick else 256),
    )


def _column(rounds: Sequence[_Round], name: str) -> tuple[float, ...]:
    return tuple(getattr(one, name) for one in rounds)


def _multiple(what: str, ours: Sequence[float], bare: Sequence[float]) -> Figure:
    ratios = tuple(a / b for a, b in zip(ours, bare, strict=True))
    return Figure(f"{what}, of a bare loop that writes and syncs", "ratio", ratios)


def _quiet_and_broken(on: Stage, progress: Progress) -> list[Figure]:
    progress(0.7, "a killed primary")
    overs = tuple(fail_over(on) for _ in range(3))
    progress(0.8, "1,000 journals and nothing to do")
    idle = idle_cpu(on, 1_000, 20.0)
    return [
        Figure("fail-over after kill -9 of a primary, R=2, 2 s lease", "s", overs, at_most(5)),
        Figure("idle broker with 1,000 journals", "% CPU", (idle,), at_most(5)),
    ]
