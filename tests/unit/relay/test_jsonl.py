"""Lines of JSON as a target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windrow.outbox.marked import Marked
from windrow.relay.failure import FailureKind
from windrow.relay.machine import Lane
from windrow.relay.targets.jsonl import JsonlTarget, encode


def row(number: int = 1, value: bytes | None = b"v", **more: object) -> Marked:
    return Marked(number, "topic", "key", value, None, None)._replace(**more)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_is_acknowledged_once_it_is_in_the_file(path: Path) -> None:
    target = JsonlTarget(str(path))
    target.open()
    lanes = [Lane(row(1)), Lane(row(2, None))]
    target.send(lanes)
    assert list(target.acknowledged) == lanes
    assert lines(path) == [
        {"id": 1, "topic": "topic", "key": "key", "value": "v"},
        {"id": 2, "topic": "topic", "key": "key", "value": None},
    ]
    assert target.poll(0.0) == 1
    target.close(0.0)


def test_a_line_that_a_killed_relay_left_torn_is_cut_off(path: Path) -> None:
    path.write_text('{"id": 1}\n{"id": 2, "to')
    target = JsonlTarget(str(path))
    target.open()
    target.send([Lane(row(2))])
    target.close(0.0)
    assert [line["id"] for line in lines(path)] == [1, 2]


def test_a_malformed_record_fails_alone(path: Path) -> None:
    target = JsonlTarget(str(path))
    target.open()
    bad, good = Lane(row(1, header_keys=["a"], header_values=[])), Lane(row(2))
    target.send([bad, good])
    target.close(0.0)
    ((lane, failure),) = target.failed
    assert (lane, failure.kind) == (bad, FailureKind.PERMANENT)
    assert list(target.acknowledged) == [good]


def test_a_write_that_fails_may_have_happened(path: Path) -> None:
    target = JsonlTarget(str(path))
    lane = Lane(row(1))
    target.send([lane])  # it was never opened: the descriptor is bad
    ((failed, failure),) = target.failed
    assert (failed, failure.kind) == (lane, FailureKind.UNKNOWN)
    assert not target.acknowledged


def test_everything_a_record_has_is_in_its_line() -> None:
    whole = row(
        7, b"\xff\x00", header_keys=["h"], header_values=[None], partition=3, timestamp=1_700
    )
    assert json.loads(encode(whole)) == {
        "id": 7,
        "topic": "topic",
        "key": "key",
        "value_base64": "/wA=",
        "headers": [["h", None]],
        "partition": 3,
        "timestamp": 1700,
    }
