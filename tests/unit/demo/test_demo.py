"""What the demo decides by itself: what is counted, told and shown, without any part running."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from windrow.demo.delays import percentile, stretches
from windrow.demo.errors import NoVerdict
from windrow.demo.gauge import Sample
from windrow.demo.graph import TOPIC, enrich, fork, join, on_journals, on_kafka
from windrow.demo.load import CLIENTS, TEAMS, Load, hero
from windrow.demo.outcome import POINTS, as_object, page_of, thinned
from windrow.demo.parts import Part, version_of_kafka
from windrow.demo.road import Kill, own_lines, settings
from windrow.demo.stages import Stage, Stages
from windrow.demo.story import FULL, SMALL, Demonstration, Plan
from windrow.demo.verdict import Verdict, read_verdict
from windrow.graph import Message
from windrow.graph.context import Context
from windrow.graph.snapshot import ProcessorUid
from windrow.playpen.messages import HERO_CREATED

CLEAN = Verdict("table", 9, 9, 0, 0, 0, 0, is_clean=True)
SHOWN = Demonstration(
    killed=((1.5, Kill("broker", 17, "and started again as 18")),),
    verdicts=(CLEAN, replace(CLEAN, end="audit")),
    wrong_totals=0,
    totals={"team 0": 9},
    stretches=tuple(stretches({1: 1.0, 2: 2.0}, {1: 1.5, 2: 2.25}, {1: 4.0, 2: 4.0}, "journal")),
    stages=(Stage("the parts start", 2.04), Stage("the verdict", 1.5)),
    samples=(Sample(0.0, 1, 1, 0, None), Sample(1.0, 9, 0, 9, 9)),
)
CONTEXT = Context(ProcessorUid.parse("demo/enrich"), "00", ())


def printed(**counts: object) -> str:
    given = {"written": 9, "missing": 0, "doubled": 0, "misordered": 0, "unexpected": 0}
    return json.dumps({**given, "clean": True, **counts})


def test_verdict_is_what_verify_says() -> None:
    assert read_verdict("table", printed(), 0) == CLEAN
    broken = read_verdict("table", printed(missing=2, doubled=1, clean=False), 1)
    assert (broken.delivered, broken.lost, broken.doubled, broken.is_clean) == (7, 2, 1, False)


def test_verdict_is_clean_only_if_verify_also_ended_so() -> None:
    assert not read_verdict("table", printed(), 1).is_clean


@pytest.mark.parametrize("text", ["", "[]", '{"written": 9}', "null"])
def test_what_is_no_verdict_is_not_taken_for_one(text: str) -> None:
    with pytest.raises(NoVerdict, match="windrow verify"):
        read_verdict("table", text, 0)


def test_demonstration_holds_if_both_ends_are_clean_and_all_totals_are_right() -> None:
    assert SHOWN.holds
    assert not replace(SHOWN, verdicts=(CLEAN, replace(CLEAN, is_clean=False))).holds
    assert not replace(SHOWN, wrong_totals=1).holds


def test_verdict_on_nothing_does_not_hold() -> None:
    assert not replace(SHOWN, verdicts=()).holds
    assert not replace(SHOWN, verdicts=(replace(CLEAN, written=0, delivered=0),)).holds


def test_counts_of_both_ends_together_are_those_of_the_worse_one() -> None:
    audit = replace(CLEAN, end="audit", delivered=8, lost=1, is_clean=False)
    told = as_object(replace(SHOWN, verdicts=(CLEAN, audit)), [])
    verdict = told["verdict"]
    assert (verdict["written"], verdict["delivered"], verdict["lost"]) == (9, 8, 1)
    assert not verdict["holds"]


def test_every_moment_belongs_to_one_stage() -> None:
    moments = iter([10.0, 12.0, 15.5, 16.0])
    stages = Stages("first", lambda: next(moments))
    stages.begin("second")
    stages.begin("third")
    assert stages.so_far() == (Stage("first", 2.0), Stage("second", 3.5), Stage("third", 0.5))
    assert as_object(SHOWN, [])["stages"][0] == {"name": "the parts start", "seconds": 2.0}


@pytest.mark.parametrize("plan", [FULL, SMALL])
def test_heroes_are_left_to_ask_for_when_the_last_part_is_killed(plan: Plan) -> None:
    """As long as none has arrived there are no more than a crowd, and then it is Spark's turn."""
    assert 2 * plan.crowd < plan.most


def test_clients_that_are_held_ask_for_nothing_and_can_be_stopped() -> None:
    load = Load(port=9, rate=1e6, most=40)  # nobody is there, so each request is refused
    load.hold(True)
    with load:
        load.hold(True)
        assert load.refused == 0
        load.hold(False)
        load.wait()
        assert load.refused == 40
    held = Load(port=9, rate=1e6, most=40)
    held.hold(True)
    with held:
        pass
    assert held.refused == 0


def test_page_shows_the_numbers_that_are_told() -> None:
    told = as_object(SHOWN, [Part("Java", "17")])
    page = page_of(told, SHOWN.samples, "journal").to_html()
    assert 'data-value="9" data-column="written" data-row="audit"' in page
    assert 'data-value="0.25" data-column="p50" data-row="service to journal"' in page
    assert 'data-label="broker"' in page
    assert "a relay, a journal and a graph" in page
    assert 'data-points="0.0,null 1.0,9"' in page  # nobody knew of the audit at first


def test_lines_of_the_page_end_where_it_ended() -> None:
    samples = [Sample(float(n), n, 0, n, n) for n in range(999)]
    assert thinned(samples)[-1] == samples[-1]
    assert len(thinned(samples)) <= 1.5 * POINTS
    assert thinned(samples[:3]) == samples[:3]
    assert thinned([]) == []


def test_stretches_are_measured_for_heroes_that_have_both_ends() -> None:
    found = stretches({1: 0.0, 2: 0.0, 3: 0.0}, {1: 1.0, 2: 3.0}, {1: 2.0}, "Kafka")
    assert [(each.name, each.p50, each.p99) for each in found] == [
        ("service to Kafka", 1.0, 3.0),
        ("Kafka to table", 1.0, 1.0),
        ("service to table", 2.0, 2.0),
    ]
    assert stretches({}, {}, {}, "Kafka") == []


def test_percentile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(1, 201)]
    assert (percentile(values, 50), percentile(values, 99), percentile([7.0], 99)) == (100, 198, 7)


def test_heroes_of_a_team_are_asked_for_by_one_client() -> None:
    asked = {(client, hero(client, n)[1]) for client in range(CLIENTS) for n in range(20)}
    assert len(asked) == len({team for _, team in asked}) == TEAMS


def test_graph_enriches_joins_and_forks() -> None:
    created = Message({"id": 7, "name": "Ada", "team": "red", "createdAt": "…"}, key="7")
    enriched = enrich({"heroes": created}, CONTEXT)
    assert (enriched.key, enriched.value["id"]) == ("red", 7)
    joined = join({"enriched": enriched, "missions": Message({"mission": "tea"})}, CONTEXT)
    forked = fork({"assigned": joined}, CONTEXT)
    assert forked["row"].value == {
        "id": 7,
        "name": "Ada",
        "team": "red",
        "strength": enriched.value["strength"],
        "mission": "tea",
    }
    assert (forked["entry"].key, forked["entry"].value) == ("red", {"id": 7})


def test_hero_without_a_team_has_a_key_as_well() -> None:
    alone = Message({"id": 7, "name": "Ada", "team": None}, key="7")
    assert enrich({"heroes": alone}, CONTEXT).key == "no team"


def test_both_graphs_are_the_same_but_for_their_places() -> None:
    assert [part.id for part in on_journals.working] == [part.id for part in on_kafka.working]
    assert TOPIC == HERO_CREATED


def test_settings_name_no_secret_and_fit_the_way(tmp_path: Path) -> None:
    over_journals = settings("postgresql://h/d", "127.0.0.1:1", None, tmp_path)
    over_kafka = settings("postgresql://h/d", "127.0.0.1:1", "127.0.0.1:2", tmp_path)
    assert 'target = "journal"' in over_journals
    assert 'mode = "transactional"' in over_kafka
    assert 'bootstrap = "127.0.0.1:2"' in over_kafka


def test_reasons_are_picked_out_of_a_log_of_java() -> None:
    log = "\tat org.apache\n2026 [warning] processor failed [windrow.graph] leg=a\n\tat scala\n"
    assert own_lines(log) == ["2026 [warning] processor failed [windrow.graph] leg=a"]
    assert len(own_lines(log * 9)) == 4


def test_version_of_kafka_is_the_one_of_its_jar(tmp_path: Path) -> None:
    (tmp_path / "kafka-clients-3.9.2.jar").touch()
    assert version_of_kafka(tmp_path) is None
    (tmp_path / "kafka_2.13-4.1.0.jar").touch()
    assert version_of_kafka(tmp_path) == "4.1.0"
