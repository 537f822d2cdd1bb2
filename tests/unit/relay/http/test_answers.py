"""What each answer of a receiver says about the message."""

from __future__ import annotations

import pytest

from windrow.relay.competing.contract import Delivered, Later, Refused
from windrow.relay.targets.http.answers import asked_delay, judge

NOON = 1_767_268_800.0  # Thu, 01 Jan 2026 12:00:00 GMT


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_success_is_delivered(status: int) -> None:
    assert judge(status, None, NOON) == Delivered()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 499])
def test_a_client_error_is_refused_for_good(status: int) -> None:
    outcome = judge(status, "10", NOON)
    assert isinstance(outcome, Refused)
    assert str(status) in outcome.reason


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
def test_a_redirect_is_refused_and_said_not_to_be_followed(status: int) -> None:
    outcome = judge(status, None, NOON)
    assert isinstance(outcome, Refused)
    assert "not followed" in outcome.reason


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 505, 507, 599])
def test_what_passes_is_tried_later_and_counted(status: int) -> None:
    outcome = judge(status, None, NOON)
    assert isinstance(outcome, Later)
    assert not outcome.is_outage


@pytest.mark.parametrize("status", [502, 503, 504])
def test_nobody_there_is_an_outage_and_burns_no_attempt(status: int) -> None:
    outcome = judge(status, "7", NOON)
    assert outcome == Later(outcome.reason, 7.0, is_outage=True)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 3 ", 3.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 12:00:30", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("9" * 400, None),
        ("²", None),
    ],
)
def test_retry_after_is_read_in_seconds_or_as_a_date(header: str, seconds: float | None) -> None:
    assert asked_delay(header, NOON) == seconds


def test_what_the_receiver_asks_for_goes_with_the_outcome() -> None:
    assert judge(429, "2", NOON) == Later("it answered 429 Too Many Requests", 2.0)
