from __future__ import annotations

import pytest
import typer

from windrow.cli.moments import shown_moment, unix_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0),
        ("1700000000", 1_700_000_000),
        ("90m", 1_000_000 - 5400),
        ("1970-01-02", 86_400),
        ("1970-01-01T01:00:00Z", 3600),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T01:00", 3600),
    ],
)
def test_a_moment_is_a_date_a_time_ago_or_unix_seconds(text: str | None, seconds: int) -> None:
    assert unix_seconds(text, "--from", now=1_000_000.0) == seconds


def test_anything_else_is_refused_with_the_flag_and_the_forms() -> None:
    with pytest.raises(typer.BadParameter, match=r"not a moment \(yesterday\); write it as"):
        unix_seconds("yesterday", "--from")


def test_a_moment_is_shown_in_a_form_that_can_be_given_again() -> None:
    assert shown_moment(0) == ""
    assert unix_seconds(shown_moment(86_461), "--from") == 86_461
