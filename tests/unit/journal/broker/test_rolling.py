"""When fragments end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.journal.broker.appends import SPEC, fragment
from windrow.journal.broker.rolling import rolled
from windrow.journal.fragment import Fragment
from windrow.journal.spec import Codec, FragmentSpec

RULES = replace(SPEC.fragment, flush_interval=3600.0)


@pytest.mark.parametrize(
    ("current", "options", "expected"),
    [
        (fragment(0, 1024), {}, fragment(0, 1024)),
        (fragment(0, 1025), {}, fragment(1025, 1025)),
        (fragment(10, 20), {"roll_to": 20}, fragment(20, 20)),
        (fragment(10, 20), {"roll_to": 90}, fragment(90, 90)),
        (fragment(10, 20), {"roll_to": 10}, fragment(10, 20)),
        (fragment(0, 20), {"first_append_time": 100.0, "now": 3599.0}, fragment(0, 20)),
        (fragment(0, 20), {"first_append_time": 3599.0, "now": 3601.0}, fragment(20, 20)),
    ],
)
def test_a_fragment_ends_by_length_offset_or_flush_interval(
    current: Fragment, options: dict[str, float], expected: Fragment
) -> None:
    assert rolled(current, RULES, **options) == expected  # type: ignore[arg-type]


def test_a_new_codec_takes_effect_with_the_next_fragment() -> None:
    gzip = FragmentSpec(1024, Codec.GZIP)
    assert rolled(fragment(0, 20), gzip).codec is Codec.NONE
    assert rolled(fragment(20, 20), gzip).codec is Codec.GZIP
