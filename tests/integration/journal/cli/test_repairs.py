"""``windrow journal prune``, ``reset-head``, ``suspend`` and ``store-health``."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.journal.cli.conftest import (
    Create,
    Run,
    create_journal,
    run_command,
    wait_for,
)
from tests.integration.journal.conftest import EtcdPrefix
from windrow.embedded.broker import Broker
from windrow.journal.client.errors import InvalidTail
from windrow.journal.client.sequence import SEQ, last_register
from windrow.journal.client.sync import connect
from windrow.journal.message.record import Record

SEQUENCED = {"windrow.dev/sequenced": ""}


def fragments(run: Run, journal: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(run("fragments", journal, "--json").out)
    return listed


def with_stored(run: Run, journal: str, *contents: bytes) -> list[dict[str, Any]]:
    """Append contents, each of which rolls the fragment before; all but the last are stored."""
    for content in contents:
        assert run("append", journal, stdin=content).code == 0

    def stored() -> list[dict[str, Any]]:
        found = [fragment for fragment in fragments(run, journal) if fragment["stored"]]
        return found if found and found[-1]["end"] == sum(map(len, contents[:-1])) else []

    return list(wait_for(stored))


def stored_files(broker: Broker, journal: str) -> list[Path]:
    return sorted((Path(broker.flags["file-root"]) / journal).glob("*.gz"))


def test_prune_deletes_what_is_past_its_retention_but_not_the_last_stored(
    run: Run, create: Create, broker: Broker
) -> None:
    # A fragment of more than its length is rolled by the next append.
    journal = create(length=1024, retention="1h0m0s")
    pieces = [os.urandom(1500) for _ in range(4)]
    with_stored(run, journal, *pieces)
    prune = ("prune", journal, "--file-root", broker.flags["file-root"])
    files = stored_files(broker, journal)
    assert len(files) == 3
    assert "pruned 0 fragments" in run(*prune).out  # none is an hour old
    long_ago = time.time() - 7200
    for file in files:
        os.utime(file, (long_ago, long_ago))
    would = wait_for(lambda: _pruned(run, *prune, "--dry-run", count=2))
    assert (would["dry_run"], would["bytes"]) == (True, 3000)
    assert stored_files(broker, journal) == files
    done = json.loads(run(*prune, "--json").out)
    assert [each["begin"] for each in done["pruned"]] == [0, 1500]
    assert stored_files(broker, journal) == files[2:]
    # What is left can be read, from where it now begins.
    wait_for(lambda: fragments(run, journal)[0]["begin"] == 3000)
    read = run("read", journal)
    assert read.raw == pieces[2] + pieces[3]
    assert "not there any more" in read.err


def _pruned(run: Run, *argv: str, count: int) -> dict[str, Any] | None:
    plan: dict[str, Any] = json.loads(run(*argv, "--json").out)
    return plan if len(plan["pruned"]) == count else None


def test_prune_keeps_journals_without_a_retention_for_ever(
    run: Run, create: Create, broker: Broker
) -> None:
    journal = create(length=1024)
    with_stored(run, journal, bytes(1500), bytes(1500), bytes(1500))
    for file in stored_files(broker, journal):
        os.utime(file, (0, 86_400))
    wait_for(lambda: fragments(run, journal)[0]["stored"].startswith("1970"))
    done = run("prune", journal, "--file-root", broker.flags["file-root"], "--json")
    assert json.loads(done.out)["pruned"] == []
    assert len(stored_files(broker, journal)) == 2


def test_prune_without_the_root_of_the_stores_deletes_nothing(
    run: Run, create: Create, broker: Broker
) -> None:
    journal = create(length=1024, retention="1s")
    with_stored(run, journal, bytes(1500), bytes(1500), bytes(1500))
    wait_for(lambda: "file-root" in run("prune", journal).err)
    assert len(stored_files(broker, journal)) == 2


def test_suspend_takes_idle_journals_and_an_append_resumes_them(run: Run, create: Create) -> None:
    empty, idle = create(), create()
    assert run("append", idle, stdin=b"content").code == 0
    [row] = json.loads(run("suspend", empty, "--json").out)
    assert row == {"journal": empty, "level": "FULL", "offset": 0}
    assert json.loads(run("suspend", idle, "--json").out)[0]["level"] == "NONE"  # not stored yet
    [row] = json.loads(run("suspend", idle, "--force", "--json").out)
    assert row == {"journal": idle, "level": "PARTIAL", "offset": 7}
    assert run("read", empty, idle).raw == b"content"
    assert run("suspend", empty, idle).code == 0  # again
    assert run("append", idle, stdin=b" more").code == 0
    assert run("append", empty, stdin=b"the first").code == 0
    assert run("read", empty).raw == b"the first"
    [listed] = json.loads(run("list", idle, "--json").out)
    assert listed["suspend"]["level"] == "NONE"
    assert run("read", idle).raw == b"content more"


def test_a_store_is_tried_by_the_broker(run: Run, create: Create) -> None:
    create()
    assert run("store-health", "file:///", "--check-delete").code == 0
    sick = run("store-health", "file:///not-there/", "file:///", "--json")
    assert sick.code == 1
    first, second = json.loads(sick.out)
    assert "does not exist" in first["problem"]
    assert second == {"store": "file:///", "problem": None}
    assert "file:///" in run("store-health").out
    assert run("store-health", "ftp://host/").code == 2


# -- a head that was lost ------------------------------------------------------------------------


@pytest.fixture
def lone(cluster_etcd: EtcdPrefix) -> Iterator[Broker]:
    """A broker whose keys are in etcd, so that its disk can be lost and its journals not."""
    flags = {"etcd-lease": "2s", "pulse-interval": "1s"}
    with Broker.start(etcd_url=cluster_etcd.url, prefix=cluster_etcd.prefix, flags=flags) as broker:
        yield broker


@pytest.fixture
def run_lone(lone: Broker, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("WINDROW__JOURNAL__ADDRESS", lone.address)
    return lambda *argv, stdin=b"": run_command(monkeypatch, stdin, *argv)


def lose_disk(broker: Broker) -> None:
    broker.kill()
    shutil.rmtree(broker.data)
    broker.data.mkdir()
    broker.restart()


def test_a_lost_head_is_refused_told_and_moved_behind_what_is_stored(
    lone: Broker, run_lone: Run
) -> None:
    journal = create_journal(run_lone, "journal")
    with_stored(run_lone, journal, b"stored ", b"lost ")
    assert f"{journal}: its head is at 12 and takes appends" in run_lone("reset-head", journal).out
    lose_disk(lone)
    refused = run_lone("append", journal, stdin=b"again ")
    assert (refused.code, 'run "windrow journal reset-head"' in refused.err) == (1, True)

    [would] = json.loads(run_lone("reset-head", journal, "--dry-run", "--json").out)
    assert (would["is_lost"], would["result"]) == (True, "")
    nobody = run_lone("reset-head", journal)
    assert (nobody.code, "add --yes" in nobody.err) == (2, True)
    assert run_lone("append", journal, stdin=b"again ").code == 1  # nothing has been done yet

    done = run_lone("reset-head", "-l", f"name={journal}", "--yes")
    assert (done.code, "appends go on at" in done.out) == (0, True), done.err
    appended = run_lone("append", journal, "--json", stdin=b"again ")
    [row] = json.loads(appended.out)
    assert row["begin"] >= 7  # never an offset that was written before
    assert run_lone("read", journal).raw == b"stored again "


def test_the_registers_of_a_sequenced_journal_are_rebuilt_with_its_head(
    lone: Broker, run_lone: Run
) -> None:
    """Its writer goes on with the number that follows what is stored; nothing is numbered twice."""
    journal = create_journal(run_lone, "journal", SEQUENCED)
    with connect(lone.address) as client:
        writer = client.sequenced(journal, "shop")
        first = writer.append([Record(value=b"a"), Record(value=b"b")], "batch-1")
        writer.append([Record(value=b"c")], "batch-2")
    wait_for(lambda: fragments(run_lone, journal)[0]["stored"])
    lose_disk(lone)
    done = run_lone("reset-head", journal, "--yes")
    assert (done.code, "registers rebuilt" in done.out) == (0, True), done.err

    with connect(lone.address) as client:
        registers = client.append(journal).registers
        assert registers.value(SEQ) == "2"
        assert (registers.value(last_register("shop")) or "").startswith("batch-1/")
        again = client.sequenced(journal, "shop")
        assert again.open().last == first.batch
        again.append([Record(value=b"d")], "batch-3")
    lines = run_lone("read", journal, "--records").out.splitlines()
    records = [json.loads(line) for line in lines]
    assert [(each["seq"], each["value"]) for each in records] == [(0, "a"), (1, "b"), (2, "d")]
    assert "takes appends" in run_lone("reset-head", journal).out


def test_a_journal_labelled_sequenced_that_is_none_is_told_so(run: Run, create: Create) -> None:
    journal = create(labels=SEQUENCED)
    run("append", journal, stdin=b"lines of text\n")
    failed = run("reset-head", journal, "--yes", "--json")
    assert (failed.code, json.loads(failed.err)["error"]["type"]) == (1, InvalidTail.__name__)


def test_a_journal_of_which_nothing_is_left_is_told_to_be_made_anew(
    lone: Broker, run_lone: Run
) -> None:
    """An append at offset 0 cannot insist on it, so no append can confirm that loss."""
    journal = create_journal(run_lone, "journal")
    assert run_lone("append", journal, stdin=b"never stored").code == 0
    lose_disk(lone)
    assert run_lone("append", journal, stdin=b"again").code == 1
    lost = run_lone("reset-head", journal, "--yes")
    assert (lost.code, len(lost.err.splitlines())) == (1, 1)
    assert "delete it and apply it anew" in lost.err
    spec = run_lone("list", journal, "--format", "yaml").out
    assert run_lone("apply", stdin=f"{spec}delete: true\n".encode()).code == 0
    lines = [line for line in spec.splitlines() if not line.startswith("revision:")]
    assert run_lone("apply", stdin="\n".join(lines).encode()).code == 0
    assert run_lone("append", journal, stdin=b"anew").code == 0
    assert run_lone("read", journal).raw == b"anew"
