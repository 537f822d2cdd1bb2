"""The piece of work that tells a slow hour of the machine from a slow program."""

from __future__ import annotations

import pytest

from windrow.bench import yardstick


def test_more_work_takes_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yardstick, "STEPS", 1_000)
    monkeypatch.setattr(yardstick, "COPY_BYTES", 1_000)
    little = min(yardstick.fixed_work() for _ in range(5))
    monkeypatch.setattr(yardstick, "STEPS", 300_000)
    assert 0.0 <= little < min(yardstick.fixed_work() for _ in range(3))
