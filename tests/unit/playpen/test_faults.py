from __future__ import annotations

import json

import pytest

from windrow.playpen.errors import BadRequest
from windrow.playpen.faults import Dice, Fault, Mode, parse_fault


def hits(fault: Fault, messages: int = 1_000) -> list[bool]:
    dice = Dice(fault)
    return [dice.hits() for _ in range(messages)]


def test_same_seed_strikes_the_same_messages() -> None:
    fault = Fault(Mode.FAIL, rate=0.3, seed=7)
    assert hits(fault) == hits(fault)
    assert hits(fault) != hits(Fault(Mode.FAIL, rate=0.3, seed=8))


def test_rate_is_the_share_that_suffers_and_those_are_counted() -> None:
    dice = Dice(Fault(Mode.FAIL, rate=0.3, seed=7))
    struck = sum(dice.hits() for _ in range(10_000))
    assert 2_500 < struck < 3_500
    assert dice.applied == struck


def test_nobody_suffers_from_no_fault_and_everybody_at_rate_one() -> None:
    assert not any(hits(Fault()))
    assert not any(hits(Fault(Mode.FAIL, rate=0.0)))
    assert all(hits(Fault(Mode.STALL, rate=1.0)))


def test_status_of_a_refusal_differs_from_that_of_a_failure() -> None:
    assert parse_fault(b'{"mode": "fail"}').status == 503
    assert parse_fault(b'{"mode": "reject"}').status == 400


def test_fault_that_is_shown_can_be_set_again() -> None:
    for text in ('{"mode": "none"}', '{"mode": "reject", "rate": 0.5, "seed": 3}'):
        fault = parse_fault(text.encode())
        assert parse_fault(json.dumps(fault.as_object()).encode()) == fault


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"mode": "explode"}',
        b'{"mode": "fail", "rate": 1.5}',
        b'{"mode": "fail", "rate": true}',
        b'{"mode": "fail", "rate": NaN}',
        b'{"mode": "fail", "status": 400}',
        b'{"mode": "reject", "status": 503}',
        b'{"mode": "hold", "seconds": -1}',
        b'{"mode": "hold", "seed": "x"}',
        b'{"mode": "hold", "when": "never"}',
        b'{"mode": "fail", "often": true}',
    ],
)
def test_fault_that_does_not_exist_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_fault(body)


def test_being_offline_is_for_whoever_can_stop_the_process() -> None:
    with pytest.raises(BadRequest, match="stop the process"):
        parse_fault(b'{"mode": "offline"}')
