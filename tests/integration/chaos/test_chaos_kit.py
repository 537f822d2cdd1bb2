"""The kit itself: small runs of it for real, its report, and that it catches a relay that lies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.services import do_without
from windrow.chaos import DATABASES, Database, Options, choose, run
from windrow.chaos.accounts import KINDS
from windrow.chaos.scenarios import POINTS
from windrow.errors import NotInstalled
from windrow.report.cells import NOTHING, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

HASTY = Path(__file__).with_name("hasty_relay.py")
COLUMNS = ("written", "delivered", "lost", "waiting", "doubled", "p50", "p99", "recovery")


@dataclass(frozen=True)
class Run:
    exit_code: int
    report: dict[str, Any]
    page: Path

    def scenario(self, name: str) -> dict[str, Any]:
        (found,) = (each for each in self.report["scenarios"] if each["name"] == name)
        return dict(found)


def windrow(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "windrow", *argv],
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory, postgres_server: object) -> Run:
    """S1 and S7 by the command, once for all tests; without a PostgreSQL there is none."""
    page = tmp_path_factory.mktemp("chaos") / "report.html"
    done = windrow("chaos", "run", "S1", "S7", "--seconds=2", "--json", f"--html={page}")
    assert not done.stderr
    return Run(done.returncode, json.loads(done.stdout), page)


def test_the_outbox_loses_nothing_when_the_receiver_is_offline_and_the_control_does(
    small_run: Run,
) -> None:
    s1 = small_run.scenario("S1")
    assert s1["result"] == "pass", s1["reasons"]
    assert s1["outbox"]["written"] == s1["outbox"]["delivered"] > 0
    assert s1["sync"]["lost"] > 0


def test_the_outbox_loses_nothing_when_relays_are_killed_at_each_point(small_run: Run) -> None:
    s7 = small_run.scenario("S7")
    assert s7["result"] == "pass", s7["reasons"]
    assert s7["outbox"]["written"] == s7["outbox"]["delivered"] > 0
    assert s7["outbox"]["doubled_behind_inbox"] == 0
    killed = sorted(stretch["label"] for stretch in s7["stretches"])
    points = [f"killed at {point.removeprefix('competing.')}" for point in POINTS]
    assert killed == sorted(2 * points)


def test_a_run_in_which_all_hold_ends_with_0_and_tells_everything(small_run: Run) -> None:
    report = small_run.report
    assert (small_run.exit_code, report["passed"]) == (0, True)
    assert set(report) == {
        *("database", "relays", "rate", "seconds_each", "seed"),
        *("passed", "scenarios"),
    }
    for scenario in report["scenarios"]:
        assert set(scenario) == {
            *("name", "title", "result", "reasons", "seconds", "strikes", "buried"),
            *("outbox", "sync", "stretches", "timeline"),
        }
        for kind in KINDS:
            account, last = scenario[kind], scenario["timeline"][kind][-1]
            assert set(COLUMNS) < set(account)
            total = account["delivered"] + account["lost"] + account["waiting"]
            assert total == account["written"]
            assert (last["written"], last["delivered"]) == (
                account["written"],
                account["delivered"],
            )


def test_numbers_on_the_page_are_those_of_the_json(small_run: Run, chromium: Browser) -> None:
    page = chromium.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(small_run.page.as_uri())
    assert (problems, asked) == ([], [small_run.page.as_uri()])
    assert json.loads(page.locator("#report").text_content() or "") == small_run.report
    assert page.locator("h1 [data-verdict]").get_attribute("data-verdict") == "pass"
    for scenario in small_run.report["scenarios"]:
        for kind in KINDS:
            row = page.locator(f'#numbers tr[data-row="{scenario["name"]} {kind}"]')
            for name in COLUMNS:
                _check(row.locator(f'[data-column="{name}"]'), scenario[kind][name])
            _check_line(page.locator(f"#{scenario['name'].lower()}-{kind}"), scenario, kind)


def _check(cell: Locator, value: float | None) -> None:
    assert json.loads(cell.get_attribute("data-value") or "") == value
    assert cell.inner_text().removesuffix(" s") == (NOTHING if value is None else shown(value))


def _check_line(figure: Locator, scenario: dict[str, Any], kind: str) -> None:
    assert figure.locator("svg.plot").is_visible()
    for what in ("written", "delivered"):
        points = figure.locator(f'path[data-series="{what}"]').get_attribute("data-points") or ""
        drawn = [[float(number) for number in point.split(",")] for point in points.split()]
        told = [[point["at"], point[what]] for point in scenario["timeline"][kind]]
        assert drawn == told
    marks = figure.locator("g.mark")
    labels = [mark.get_attribute("data-label") for mark in marks.all()]
    assert labels == [stretch["label"] for stretch in scenario["stretches"]]


def test_the_page_follows_the_readers_light_or_dark_setting(
    small_run: Run, chromium: Browser
) -> None:
    papers = []
    for scheme in ("light", "dark"):
        page = chromium.new_page(color_scheme=scheme)
        page.goto(small_run.page.as_uri())
        papers.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(255, 255, 255)", "rgb(18, 24, 31)"]


@pytest.mark.usefixtures("postgres_server")
def test_a_relay_that_finishes_before_it_sends_is_caught() -> None:
    options = Options(seconds=2.0, relay_program=(str(HASTY),), patience=60.0)
    report = run(choose(["S1"]), options)
    (s1,) = report["scenarios"]
    assert not report["passed"]
    assert s1["result"] == "fail"
    assert s1["outbox"]["lost"] > 0
    assert s1["reasons"] == [f"the outbox lost {s1['outbox']['lost']} of {s1['outbox']['written']}"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All scenarios take minutes on each database: a regular run has one of them on the others."""
    if "database" not in metafunc.fixturenames:
        return
    few, many = [("mariadb", "S5"), ("sqlite", "S5")], [(name, "all") for name in DATABASES]
    chosen = many if metafunc.config.getoption("soak") else few
    metafunc.parametrize(("database", "name"), chosen)


def test_scenarios_hold_on_every_database(
    database: Database, name: str, pytestconfig: pytest.Config
) -> None:
    seconds = 8.0 if pytestconfig.getoption("soak") else 2.0
    try:
        report = run(choose([name]), Options(seconds=seconds, database=database))
    except NotInstalled as error:
        do_without(pytestconfig, str(error))
    told = {each["name"]: (each["result"], each["reasons"]) for each in report["scenarios"]}
    assert report["passed"], told
