"""How a graph is doing, told from what is written and what its runner says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from windrow.graph import Graph, Source, declare
from windrow.graph.backing import Attempt, Retried, SnapshotTaken, fold
from windrow.graph.high_water import Delivered
from windrow.graph.planning import Available
from windrow.graph.positions import SourceOffsets, SourcePartition, Span
from windrow.graph.snapshot import ProcessorUid, Snapshot
from windrow.graph.staging import Leg
from windrow.spark.places import Connections
from windrow.spark.query.leg_plan import plan_legs
from windrow.spark.runner.facts import LegFacts
from windrow.spark.runner.order import supervised
from windrow.spark.runner.progress import batch_progress
from windrow.spark.runner.standing import LegWord, Standing
from windrow.spark.runner.status import GraphReport, figures_of, report_graph

UID = ProcessorUid("shop", "price")
LEG = Leg(UID, ("orders",), None)
FIRST = Snapshot(UID, 1, (Span("orders", "i", 0, 0, 5),))
SECOND = Snapshot(UID, 2, (Span("orders", "i", 0, 5, 9),))
DELIVERED = Delivered(UID, 1, FIRST.delivery_hash, FIRST.ends)
FACTS = LegFacts(
    fold([SnapshotTaken(FIRST), SnapshotTaken(SECOND, FIRST.delivery_hash), Retried(2, 3, "boom")]),
    DELIVERED,
    (),
    (Available("orders", "i", 0, 0, 12),),
)
STANDING = Standing("me", "host", 7, 0.0, 100.0, legs=(LegWord(str(UID), "price", "running"),))


def report(
    facts: LegFacts = FACTS, standing: Standing | None = STANDING, now: float = 101.0
) -> GraphReport:
    return report_graph("shop", standing, now, [("price", LEG, facts)])


def test_leg_tells_what_it_has_delivered_what_waits_and_what_is_in_doubt() -> None:
    [leg] = report().legs
    assert (leg.state, leg.delivered, leg.lag) == ("running", 1, 7)
    assert (leg.in_doubt, leg.attempts, leg.error) == (2, 3, "boom")
    assert json.loads(json.dumps(report().to_json()))["legs"][0]["lag"] == 7
    assert report().problems == []


def test_snapshot_that_the_sink_holds_is_not_in_doubt() -> None:
    facts = replace(FACTS, delivered=Delivered(UID, 2, SECOND.delivery_hash, SECOND.ends))
    [leg] = report(facts).legs
    assert (leg.in_doubt, leg.attempts, leg.error, leg.lag) == (None, 0, "", 3)


def test_snapshot_without_output_is_not_in_doubt() -> None:
    nil = Attempt("attempt-nil", 2, SECOND.delivery_hash)
    assert replace(FACTS, backing=FACTS.backing.after(nil)).in_doubt is None


def test_leg_that_never_ran_is_behind_by_all_there_is() -> None:
    [leg] = report(replace(LegFacts(), available=FACTS.available), None).legs
    assert (leg.state, leg.delivered, leg.lag, leg.in_doubt) == ("not running", 0, 12, None)


def test_trimmed_source_counts_from_where_it_begins() -> None:
    facts = LegFacts(available=(Available("orders", "i", 0, 4, 12),))
    assert facts.lag == 8


def test_word_of_a_runner_that_died_is_the_past_but_its_failures_stay() -> None:
    dead = report(now=1000.0)
    assert dead.legs[0].state == "not running"
    assert "it died" in dead.problems[0]
    refused = replace(
        STANDING,
        is_ended=True,
        legs=(LegWord(str(UID), "price", "refused", error="SinkLost: gone"),),
    )
    found = report(standing=refused)
    assert found.legs[0].state == "refused"
    assert found.problems == ['processor "shop/price" is refused: SinkLost: gone']
    assert not found.legs[0].is_well


def test_figures_of_a_drawing_are_those_of_the_legs() -> None:
    figures = figures_of(report(), {"orders": 12, "priced": 5}, {"orders": [str(UID)]})
    assert figures.queues == {"orders": {"offset": 12, "lag": 7}, "priced": {"offset": 5}}
    assert figures.processors["price"] == {
        "snapshot": 1,
        "lag": 7,
        "attempts": 3,
        "error": "boom",
        "state": "running",
    }


# --- progress -------------------------------------------------------------------------------------


def at(index: int) -> SourceOffsets:
    return SourceOffsets.of({SourcePartition("orders", "i", 0): index})


def progress(start: object, end: object, latest: object, **more: object) -> dict[str, Any]:
    source = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    durations = {"addBatch": 900, "triggerExecution": 2000}
    whole = {"batchId": 4, "numInputRows": 99, "durationMs": durations, "sources": [source]}
    return {**whole, **more}


@pytest.mark.parametrize("as_text", [True, False])
def test_batch_is_counted_by_its_offsets_in_whichever_form_spark_gives_them(as_text: bool) -> None:
    trees = [at(index).to_json() for index in (3, 9, 20)]
    found = batch_progress(progress(*(json.dumps(t) if as_text else t for t in trees)))
    assert found is not None
    assert (found.batch, found.rows, found.seconds, found.lag) == (4, 6, 2.0, 11)
    assert found.rate == 3.0


@pytest.mark.parametrize("nothing", [None, "null"])
def test_first_batch_begins_at_nothing(nothing: object) -> None:
    found = batch_progress(progress(nothing, at(9).to_json(), nothing))
    assert found is not None
    assert (found.rows, found.lag) == (9, 0)


@pytest.mark.parametrize("nothing", [None, "null"])
def test_first_batch_of_a_new_checkpoint_begins_where_the_query_did(nothing: object) -> None:
    found = batch_progress(progress(nothing, at(9).to_json(), nothing), at(7))
    assert found is not None
    assert found.rows == 2


def test_report_without_a_batch_is_none() -> None:
    idle = progress(None, None, None, durationMs={"latestOffset": 3, "triggerExecution": 3})
    assert batch_progress(idle) is None


def test_batch_of_another_source_is_counted_by_its_rows() -> None:
    found = batch_progress(progress("3", "9", "9"))
    assert found is not None
    assert found.rows == 99


# --- order ----------------------------------------------------------------------------------------


def test_legs_start_after_what_they_read_from_in_whichever_order_they_are_declared() -> None:
    announce = declare(print, id="announce", reads="priced", writes="told", deterministic=True)
    price = declare(print, id="price", reads="orders", writes="priced")
    graph = Graph("shop", [announce, Source("orders"), price])
    legs = supervised(plan_legs(graph, Connections()))
    assert [leg.name for leg in legs] == [
        "shop/price",
        "shop/price/output/priced",
        "shop/announce",
    ]
    assert [sorted(leg.after) for leg in legs] == [
        [],
        ["shop/price"],
        ["shop/price/output/priced"],
    ]
    assert [leg.processor for leg in legs] == ["price", "price", "announce"]
