"""The figures of ``windrow verify``, taken small."""

from __future__ import annotations

from windrow.bench import run_part


def test_every_source_is_compared_and_the_memory_is_told() -> None:
    seen: list[float] = []
    measured = run_part("verify", quick=True, progress=lambda done, what: seen.append(done))
    assert {one.figure.unit for one in measured} >= {"records/s", "MB"}
    assert all(one.value > 0 for one in measured)
    assert seen == sorted(seen)
