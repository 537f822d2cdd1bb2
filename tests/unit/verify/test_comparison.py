"""The verdict, as programs and people are told it."""

from __future__ import annotations

import pytest

from windrow.verify import Comparison, Example


def test_nothing_in_trouble_is_clean() -> None:
    assert Comparison(written=3, arrived=3).is_clean


@pytest.mark.parametrize("trouble", ["missing", "doubled", "misordered", "unexpected"])
def test_one_record_in_any_trouble_is_not_clean(trouble: str) -> None:
    assert not Comparison(**{trouble: 1}).is_clean  # type: ignore[arg-type]


def test_allowed_repeats_are_counted_and_clean() -> None:
    assert Comparison(doubled=2, forgiven=2).is_clean
    assert not Comparison(doubled=2, forgiven=2, missing=1).is_clean


def test_the_json_form_names_every_kind_of_trouble() -> None:
    found = Comparison(2, 1, missing=1, examples={"missing": (Example("k", "7", 2),)}, seconds=0.5)
    assert found.to_json() == {
        "written": 2,
        "arrived": 1,
        "missing": 1,
        "doubled": 0,
        "misordered": 0,
        "unexpected": 0,
        "forgiven": 0,
        "examples": {
            "missing": [{"key": "k", "id": "7", "at": 2}],
            "doubled": [],
            "misordered": [],
            "unexpected": [],
        },
        "clean": False,
        "seconds": 0.5,
    }


def test_a_record_without_a_key_goes_by_its_id() -> None:
    assert (str(Example("k", "7", 1)), str(Example("", "7", 1))) == ("k/7", "7")
