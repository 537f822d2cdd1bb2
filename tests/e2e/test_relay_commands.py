"""The commands around a relay, as a person or a script types them."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase, consume, wait_for
from tests.integration.relay.desks import holds, mend, write_poison
from tests.integration.relay.test_barrier import by_key
from windrow.cli.main import main
from windrow.outbox.schema import migrate
from windrow.outbox.table import Table
from windrow.verify import LedgerFile, tally

WINDROW = Path(sys.executable).with_name("windrow")


@pytest.fixture(autouse=True)
def _clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("WINDROW__", "WINDROW_CONFIG"))]:
        monkeypatch.delenv(name)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class Shell:
    """Runs commands with one environment: short ones in this process, relays in their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    def run(self, *words: str, code: int = 0) -> str:
        """What it prints: on standard output, or on standard error if it failed with a mistake."""
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            found = main(words)
        told = out.getvalue() + err.getvalue()
        assert found == code, f"{words}: {found}\n{told}"
        assert "Traceback" not in told
        return told

    def ask(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    @contextlib.contextmanager
    def relaying(self, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        with log.open("wb") as stderr:
            process = subprocess.Popen([WINDROW, "relay", *words], stderr=stderr)
        try:
            wait_for(lambda: "relay started" in log.read_text(), "it stands for leadership")
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, log.read_text()


@pytest.fixture
def shell(outbox: OutboxDatabase, kafka: str, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(monkeypatch, WINDROW__DATABASE__DSN=outbox.dsn, WINDROW__KAFKA__BOOTSTRAP=kafka)


def test_pump_relay_and_ledger_agree(
    shell: Shell, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    """One dash or two: goharvest's flags work as they were written."""
    done = shell.ask(
        *("pump", "-keys", "10", "-records", "1000", "-topic", topic, "-outbox", "outbox"),
        *("-ds", outbox.dsn, "-interval", "0", "--concurrency", "3", "--rollbacks", "10"),
        *("--size", "10-200", "--skew", "1", "--seed", "7", "--ledger", "ledger"),
    )
    assert done["written"] + done["rolled_back"] == 1000
    assert (done["seed"], done["workers"]) == (7, 3)
    shell.run("relay", "--until-empty")
    arrived = [
        (seen.key, int(dict(seen.headers)["Seq"] or b"-1")) for seen in consume(kafka, topic)
    ]
    verdict = tally(LedgerFile(tmp_path / "ledger"), arrived)
    assert verdict.is_clean
    assert verdict.delivered == done["written"]


def test_pump_insists_on_keys_and_records(shell: Shell) -> None:
    assert "'--keys'" in shell.run("pump", "--records", "1", code=2)
    assert "'--records'" in shell.run("pump", "-keys", "1", code=2)
    assert "give one of them" in shell.run(
        *("pump", "-keys", "1", "-records", "1", "-interval", "5", "--rate", "7"), code=2
    )
    assert "100-2000" in shell.run("pump", "-keys", "1", "-records", "1", "--size", "9-1", code=2)


def test_status_says_who_leads_and_exits_1_past_a_threshold(
    shell: Shell, outbox: OutboxDatabase, topic: str, tmp_path: Path
) -> None:
    assert "nobody ever was" in shell.run("status")
    outbox.write(topic, [("a", "the-value"), ("a", "2"), ("b", "1")])
    seen = shell.ask("status", code=1)
    assert (seen["backlog"], seen["in_flight"]) == (3, 0)
    assert seen["hottest"][0] == {"key": "a", "rows": 2}
    assert "nobody leads" in seen["problems"][0]
    shell.run("relay", "pause")
    with shell.relaying(tmp_path / "relay.log", "--set", "relay.name=me"):
        wait_for(lambda: shell.ask("status")["leaders"][0]["leads"], "it leads")
        told = shell.run("status")
        assert re.search(r"leader     me \(epoch 1, since .*, lease for \d\.\d s more\)", told)
        assert "blocked    1 paused" in told
        assert "the-value" not in told
        assert shell.ask("status", "--max-age", "1h", "--max-backlog", "3")["problems"] == []
        assert "3 rows wait, more than 2" in shell.run("status", "--max-backlog", "2", code=1)
        assert "oldest row" in shell.run("status", "--max-age", "1ms", code=1)
    assert "not a duration" in shell.run("status", "--max-age", "30", code=2)


def test_a_held_key_is_found_skipped_and_put_back(
    shell: Shell, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    record = write_poison(outbox, topic, "17", "the-value")
    outbox.write(topic, [("17", "next")])
    with shell.relaying(tmp_path / "relay.log"):
        wait_for(lambda: holds(outbox) == [("key", "17", "held")], "the key is held")
        (entry,) = shell.ask("deadletter", "list")
        assert (entry["kind"], entry["key"], entry["record"]) == ("held", "17", record)
        assert "the-value" not in shell.run("deadletter", "list", "--key", "17")
        # All digits: without --key it would be a dead letter.
        assert "there is none of that number" in shell.run("deadletter", "retry", "17")
        dry = shell.ask("deadletter", "skip", "17", "--dry-run")
        assert (dry["changed"], dry["would_change"]) == (False, True)
        assert shell.ask("deadletter", "skip", "17", "--record", str(record))["changed"]
        wait_for(lambda: outbox.count() == 0, "the lane goes on")
        (entry,) = shell.ask("deadletter", "list")
        number = str(entry["id"])
        shown = shell.run("deadletter", "show", number)
        assert "unequal number of header keys" in shown
        assert "the-value" not in shown
        assert shell.ask("deadletter", "show", number, "--payload")["value"] == "the-value"
        mend(outbox, "_dead")
        refused = shell.run("deadletter", "retry", number, code=1)
        assert "cannot go back in time" in refused
        shell.run("deadletter", "retry", number, "--out-of-order")
        wait_for(lambda: len(consume(kafka, topic)) == 2, "it is sent")
    assert by_key(consume(kafka, topic)) == {"17": ["next", "the-value"]}


def test_a_buried_key_is_replayed_and_a_dead_letter_is_discarded_after_a_yes(
    shell: Shell, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    write_poison(outbox, topic, "bad", "1")
    outbox.write(topic, [("bad", "2")])
    policy = ("--set", "relay.retry.when_exhausted=dead-letter-lane")
    with shell.relaying(tmp_path / "relay.log", *policy):
        wait_for(lambda: len(shell.ask("deadletter", "list")) == 3, "the lane is buried")
        entries = {entry["record"]: entry for entry in shell.ask("deadletter", "list")}
        first = str(entries[1]["id"])
        assert "add --yes" in shell.run("deadletter", "discard", first, code=2)
        assert shell.ask("deadletter", "discard", first, "--yes")["changed"]
        assert "no dead letter" in shell.run("deadletter", "show", first, code=1)
        assert "1 dead letters as" in shell.run("deadletter", "replay", "bad")
        wait_for(lambda: outbox.count() == 0, "the lane goes on")
    assert by_key(consume(kafka, topic)) == {"bad": ["2"]}
    with outbox.connect() as connection:
        rows = connection.execute("SELECT who, action, subject FROM outbox_audit ORDER BY at")
        assert [(action, subject) for _, action, subject in rows] == [
            ("discard", f"dead letter {first}"),
            ("replay", "key 'bad'"),
        ]


def test_pause_and_resume_are_refused_where_another_command_is_meant(
    shell: Shell, outbox: OutboxDatabase
) -> None:
    assert "pause key 'a': by hand" in shell.run("relay", "pause", "--key", "a")
    assert "it was paused already" in shell.run("relay", "pause", "--key", "a")
    assert "resume key 'a'" in shell.run("relay", "resume", "--key", "a")
    assert shell.ask("relay", "pause", "--topic", "t", "--note", "why")["detail"] == "why"
    assert "not both" in shell.run("relay", "pause", "--key", "a", "--topic", "t", code=2)
    assert "write options after 'pause'" in shell.run("relay", "--until-empty", "pause", code=2)
    with outbox.connect() as connection:
        connection.execute("INSERT INTO outbox_hold VALUES ('key', 'h', 'held')")
    refused = shell.run("relay", "resume", "--key", "h", code=1)
    assert "key 'h' is held, not paused; run: windrow deadletter retry --key h" in refused


# -- goharvest's own file ------------------------------------------------------------------------

REAPER = """\
harvest:
  baseKafkaConfig:
    bootstrap.servers: {kafka}
  producerKafkaConfig:
    compression.type: lz4
    delivery.timeout.ms: 10000
  leaderTopic: {group}
  leaderGroupID: {group}
  dataSource: {dsn}
  outboxTable: outbox
  name: {name}
  limits:
    minPollInterval: 100ms
    heartbeatTimeout: 2s
    maxInFlightRecords: 1000
    minMetricsInterval: 1s
    sendConcurrency: 4
    sendBuffer: 10
logging:
  level: Debug
"""


def test_goharvests_file_runs_unchanged(
    database: str, kafka: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox, group = OutboxDatabase(database), f"group-{secrets.token_hex(6)}"
    with outbox.connect() as connection:
        migrate(connection, Table())
    file = tmp_path / "reaper.yaml"
    file.write_text(REAPER.format(kafka=kafka, group=group, dsn=database, name="node-1"))
    shell = Shell(monkeypatch)
    (finding,) = [f for f in shell.ask("check", "-f", str(file)) if f["subject"] == "partitioner"]
    assert "is consistent_random" in finding["text"]
    assert "same as goharvest's" in finding["text"]
    outbox.write(topic, [("a", "1"), ("b", "1"), ("a", "2")])
    log = tmp_path / "relay.log"
    with shell.relaying(log, "-f", str(file)):
        wait_for(lambda: outbox.count() == 0, "the outbox is empty")
        wait_for(lambda: "meter read" in log.read_text(), "the meter is read")
        assert "node-1" in shell.run("status", "-file", str(file))
    assert by_key(consume(kafka, topic)) == {"a": ["1", "2"], "b": ["1"]}
    told = log.read_text()
    assert "consistent_random" in told
    assert "sendConcurrency, sendBuffer: one producer serves every key at once" in told
    # Two heartbeats are four seconds: ten would outlast the take-over.
    assert "delivery.timeout.ms of 10 s would outlast the take-over after 6 s" in told


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "harvest:\n  limits:\n    sendConcurrency: -1\n",
            "reaper.yaml: Limits: (SendConcurrency: must be no less than 1.).",
        ),
        (
            "harvest:\n  producerKafkaConfig:\n    enable.idempotence: false\n",
            "cannot override configuration 'enable.idempotence'",
        ),
        ("harvest:\n  leaderTopik: x\n", 'unknown key "harvest.leaderTopik" in reaper.yaml'),
    ],
)
def test_a_file_that_goharvest_would_refuse_is_refused_in_its_words(
    text: str, problem: str, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "reaper.yaml").write_text(text)
    assert problem in shell.run("relay", "-f", "reaper.yaml", code=2)


def test_goharvests_file_stands_in_place_of_ours(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "reaper.yaml").write_text("")
    (tmp_path / "own.toml").write_text("")
    told = shell.run("relay", "-f", "reaper.yaml", "--config", "own.toml", code=2)
    assert "in place of --config" in told
    assert "No such file" in shell.run("relay", "-f", "nowhere.yaml", code=2)
