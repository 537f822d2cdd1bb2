from __future__ import annotations

import json
import re

from tests.unit.chaos.test_grading import CLEAN, LOSES
from windrow.chaos.grading import Grade
from windrow.chaos.outcome import Outcome, Stretch, page_of, rows_of, run_object
from windrow.chaos.scenarios import choose

SETTINGS = {"database": "postgres", "relays": 2, "rate": 20.0, "seed": 7}


def outcomes() -> list[Outcome]:
    s1, s7, broker = choose(["S1", "S7", "broker-loss"])
    timeline = {"outbox": [(0.0, 0, 0), (1.0, 50, 20), (2.0, 100, 100)]}
    return [
        Outcome(
            s1,
            Grade("pass"),
            3.2,
            1,
            0,
            CLEAN,
            LOSES,
            [Stretch("receiver offline", 0.5, 1.5)],
            timeline,
        ),
        Outcome(s7, Grade("fail", ("the outbox lost 1 of 100",)), 4.0, 8, 0, CLEAN, CLEAN),
        Outcome(broker, Grade("not run", ("Kafka <is> not installed",))),
    ]


def test_a_run_passes_only_if_every_scenario_holds() -> None:
    assert not run_object(outcomes(), **SETTINGS)["passed"]
    assert run_object([outcomes()[0], outcomes()[2]], **SETTINGS)["passed"]


def test_the_object_is_json_and_says_all_that_was_counted() -> None:
    run = json.loads(json.dumps(run_object(outcomes(), **SETTINGS)))
    first = run["scenarios"][0]
    assert first["outbox"]["written"] == 100
    assert first["sync"]["lost"] == 40
    assert first["stretches"] == [{"label": "receiver offline", "at": 0.5, "until": 1.5}]
    assert first["timeline"]["outbox"][1] == {"at": 1.0, "written": 50, "delivered": 20}
    assert run["scenarios"][2]["outbox"] is None


def test_rows_tell_the_verdict_once_per_scenario() -> None:
    rows = rows_of(run_object(outcomes(), **SETTINGS))
    assert [(row["scenario"], row["kind"], row["verdict"]) for row in rows] == [
        ("S1", "outbox", "pass"),
        ("", "sync", ""),
        ("S7", "outbox", "fail"),
        ("", "sync", ""),
        ("broker-loss", "", "not run"),
    ]
    assert rows[1]["lost"] == "40"


def test_the_page_is_made_from_the_object_alone_and_embeds_it() -> None:
    run = run_object(outcomes(), **SETTINGS)
    page = page_of(run).to_html()
    embedded = re.search(r'<script type="application/json" id="report">(.*?)</script>', page)
    assert embedded is not None
    assert json.loads(embedded[1]) == json.loads(json.dumps(run))
    assert "Kafka &lt;is&gt; not installed" in page
    assert 'data-value="40" data-column="lost" data-row="S1 sync"' in page
    assert 'data-label="receiver offline"' in page


def test_a_bar_for_each_kind_shows_what_it_lost() -> None:
    page = page_of(run_object(outcomes(), **SETTINGS)).to_html()
    assert 'data-label="S1 sync" data-value="40"' in page
    assert 'data-label="S1 outbox" data-value="0"' in page
