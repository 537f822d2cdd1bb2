"""What lies beside the checkpoints: the topology, what a runner says, and what was mended."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from windrow.graph import Graph, Source, TopologyChanged, declare
from windrow.graph.policies import Retry
from windrow.spark.runner.audit import note_repair, read_repairs
from windrow.spark.runner.causes import Cause, CauseKind
from windrow.spark.runner.files import LocalFiles
from windrow.spark.runner.standing import (
    LOST_AFTER,
    LegWord,
    Notice,
    read_standing,
    request_stop,
    word_of,
)
from windrow.spark.runner.supervisor import Leg, LegState, LegStatus
from windrow.spark.runner.topology_guard import UnreadableTopology, guard_topology

FILES = LocalFiles()


def graph(writes: str = "priced") -> Graph:
    return Graph(
        "shop", [Source("orders"), declare(print, id="price", reads="orders", writes=writes)]
    )


# --- topology -----------------------------------------------------------------------------------


def test_topology_is_stored_with_its_sources_and_stays(tmp_path: Path) -> None:
    assert guard_topology(FILES, str(tmp_path), graph()).is_new
    stored = json.loads((tmp_path / "shop" / "topology.json").read_text())
    assert stored["sources"] == ["orders"]
    assert stored["fingerprint"] == graph().topology.fingerprint
    again = guard_topology(FILES, str(tmp_path), graph())
    assert not again.is_new
    assert not again.changes


def test_another_topology_is_refused_with_what_differs_and_the_flag(tmp_path: Path) -> None:
    guard_topology(FILES, str(tmp_path), graph())
    with pytest.raises(TopologyChanged) as refused:
        guard_topology(FILES, str(tmp_path), graph("sold"))
    assert 'no longer writes "priced"' in str(refused.value)
    assert "--accept-topology" in str(refused.value)
    with pytest.raises(TopologyChanged):
        guard_topology(FILES, str(tmp_path), graph("sold"))


def test_accepted_topology_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    guard_topology(FILES, str(tmp_path), graph())
    accepted = guard_topology(FILES, str(tmp_path), graph("sold"), accept=True)
    assert any('now writes "sold"' in change for change in accepted.changes)
    guard_topology(FILES, str(tmp_path), graph("sold"))
    with pytest.raises(TopologyChanged):
        guard_topology(FILES, str(tmp_path), graph())


@pytest.mark.parametrize("content", ["", "{", "[]", '{"topology": 3}'])
def test_topology_that_cannot_be_read_is_refused_and_not_taken_for_none(
    tmp_path: Path, content: str
) -> None:
    guard_topology(FILES, str(tmp_path), graph())
    (tmp_path / "shop" / "topology.json").write_text(content)
    with pytest.raises(UnreadableTopology, match="--accept-topology"):
        guard_topology(FILES, str(tmp_path), graph())
    assert guard_topology(FILES, str(tmp_path), graph(), accept=True).changes
    assert not guard_topology(FILES, str(tmp_path), graph()).changes


# --- what a runner says ---------------------------------------------------------------------------


def test_runner_is_known_by_its_word_and_by_the_age_of_it(tmp_path: Path) -> None:
    assert read_standing(FILES, str(tmp_path), "shop") is None
    notice = Notice(FILES, str(tmp_path), "shop", "me")
    notice.say([LegWord("shop/price", "price", "running", rows=3)])
    found = read_standing(FILES, str(tmp_path), "shop")
    assert found is not None
    assert found.owner == "me"
    assert found.legs == (LegWord("shop/price", "price", "running", rows=3),)
    assert found.is_alive(time.time())
    assert not found.is_alive(time.time() + LOST_AFTER)
    notice.say([], is_ended=True)
    ended = read_standing(FILES, str(tmp_path), "shop")
    assert ended is not None
    assert not ended.is_alive(time.time())


def test_runner_repeats_itself_only_now_and_then_but_tells_news_at_once(tmp_path: Path) -> None:
    notice = Notice(FILES, str(tmp_path), "shop", "me")
    notice.say([LegWord("a", "a", "running", rows=1)])
    file = tmp_path / "shop" / "running.json"
    before = file.read_text()
    notice.say([LegWord("a", "a", "running", rows=2)])
    assert file.read_text() == before
    notice.say([LegWord("a", "a", "pausing", rows=2)])
    assert '"pausing"' in file.read_text()


def test_stop_is_heard_by_the_runner_it_names_and_by_no_later_one(tmp_path: Path) -> None:
    notice = Notice(FILES, str(tmp_path), "shop", "me")
    notice.begin()
    assert not notice.is_stop_requested()
    request_stop(FILES, str(tmp_path), "shop", "another")
    assert not notice.is_stop_requested()
    request_stop(FILES, str(tmp_path), "shop", "me")
    assert notice.is_stop_requested()
    Notice(FILES, str(tmp_path), "shop", "me").begin()
    assert not notice.is_stop_requested()


def test_file_that_is_no_request_stops_nobody(tmp_path: Path) -> None:
    notice = Notice(FILES, str(tmp_path), "shop", "me")
    FILES.write(f"{tmp_path}/shop/stop.json", b"[")
    assert not notice.is_stop_requested()


def test_word_of_a_leg_has_its_last_error() -> None:
    status = LegStatus(Leg("shop/price", "price", Retry()), LegState.PAUSING, failures=2, starts=3)
    status.cause = Cause(CauseKind.FAILURE, "ValueError", "no")
    word = word_of(status, 7, 3.14159)
    assert word == LegWord("shop/price", "price", "pausing", 2, 3, 7, 3.1, "ValueError: no")


# --- audit ----------------------------------------------------------------------------------------


def test_audit_grows_by_a_line_and_survives_a_torn_one(tmp_path: Path) -> None:
    assert read_repairs(FILES, str(tmp_path), "shop") == []
    note_repair(FILES, str(tmp_path), "shop", "remove a file", {"leg": "shop/price"})
    with (tmp_path / "shop" / "repairs.jsonl").open("ab") as file:
        file.write(b'{"torn\n')
    note_repair(FILES, str(tmp_path), "shop", "rewind", {"leg": "shop/price"})
    assert [line["action"] for line in read_repairs(FILES, str(tmp_path), "shop")] == [
        "remove a file",
        "rewind",
    ]
