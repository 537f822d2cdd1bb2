"""How long an HTTP effect waits before it tries again."""

from __future__ import annotations

import pytest

from windrow.spark.targets.errors import TargetUnusable
from windrow.spark.targets.http import HttpOptions, delay_before

NOON = 1_767_268_800.0


@pytest.mark.parametrize(
    ("attempt", "asked", "delay"),
    [
        (1, None, 0.2),
        (3, None, 0.8),
        (20, None, 30.0),
        (1, "5", 5.0),
        (1, "3600", 30.0),
        (1, "Thu, 01 Jan 2026 12:00:10 GMT", 10.0),
        (1, "Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        (2, "soon", 0.4),
    ],
)
def test_delay_doubles_unless_the_server_asks_for_another(
    attempt: int, asked: str | None, delay: float
) -> None:
    assert delay_before(attempt, asked, 30.0, NOON) == pytest.approx(delay)


def test_options_are_read_and_unknown_ones_refused() -> None:
    options = HttpOptions.read("u", {"timeout": "5", "attempts": "2", "headers": {"a": "b"}})
    assert (options.timeout, options.attempts, options.headers) == (5.0, 2, {"a": "b"})
    with pytest.raises(TargetUnusable, match="it has no option 'retries'"):
        HttpOptions.read("u", {"retries": "5"})
    with pytest.raises(TargetUnusable, match="could not convert"):
        HttpOptions.read("u", {"timeout": "5s"})
