"""``windrow journal list``, ``apply`` and ``edit``."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.journal.cli.conftest import SPEC, Create, Run, wait_for
from windrow.embedded.broker import Broker


def revision_of(run: Run, journal: str) -> int:
    [listed] = json.loads(run("list", journal, "--json").out)
    return int(listed["revision"])


def test_an_applied_journal_is_listed_with_its_labels_and_its_primary(
    run: Run, create: Create
) -> None:
    journal = create(labels={"app": "shop"})
    assert run("append", journal, stdin=b"x").code == 0  # from now on it has a primary
    table = run("list", journal, "-L", "app", "--stores").out.splitlines()
    assert table[0].split() == [
        "journal",
        "replication",
        "primary",
        "replicas",
        "revision",
        "stores",
        "app",
    ]
    assert table[1].split()[0::2] == [journal, "local#broker", "file:///"]
    [listed] = json.loads(run("list", "-l", f"name={journal}", "--json").out)
    assert listed["primary"] == "local#broker"
    assert listed["fragment"]["compression_codec"] == "GZIP"
    assert {"name": "app", "value": "shop"} in listed["labels"]
    assert f'name: "{journal}"' in run("list", journal, "--format", "proto").out


def test_listed_yaml_can_be_changed_and_applied(run: Run, create: Create, tmp_path: Path) -> None:
    first = create("one")
    home = first.removesuffix("one")
    second = create(f"{home}two")
    listed = run("list", "-l", f"prefix={home}", "--format", "yaml")
    tree = yaml.safe_load(listed.out)
    assert tree["name"] == home  # hoisted
    assert [child["name"] for child in tree["children"]] == [first, second]
    tree["fragment"]["retention"] = "1h0m0s"
    tree["children"][1]["delete"] = True
    file = tmp_path / "specs.yaml"
    file.write_text(yaml.safe_dump(tree), encoding="utf-8")

    would = run("apply", "--specs", str(file), "--dry-run", "--json")
    changes = [
        {"journal": first, "action": "update"},
        {"journal": second, "action": "delete"},
    ]
    assert json.loads(would.out) == {"revision": None, "dry_run": True, "changes": changes}
    assert len(json.loads(run("list", "-l", f"prefix={home}", "--json").out)) == 2

    done = json.loads(run("apply", "--specs", str(file), "--json").out)
    assert done["changes"] == changes
    [left] = json.loads(run("list", "-l", f"prefix={home}", "--json").out)
    assert (left["journal"], left["revision"]) == (first, done["revision"])
    assert left["fragment"]["retention"] == "1h0m0s"


def test_specs_that_are_already_so_are_not_written_again(run: Run, create: Create) -> None:
    journal = create()
    before = revision_of(run, journal)
    same = run("list", journal, "--format", "yaml").out
    applied = run("apply", stdin=same.encode())
    assert "unchanged" in applied.out
    assert revision_of(run, journal) == before


def test_a_wrong_revision_is_refused_with_the_present_one_and_changes_nothing(
    run: Run, create: Create
) -> None:
    journal = create()
    before = revision_of(run, journal)
    text = SPEC.format(name=journal, labels="  []", length=2048, retention="0s")
    for wrong, told in ((0, "exists already"), (before + 7, f"and revision {before + 7} was")):
        refused = run("apply", stdin=f"{text}revision: {wrong}\n".encode())
        assert refused.code == 1
        assert told in refused.err
        assert f"at revision {before}" in refused.err
    missing = run("apply", stdin=f"name: {journal}-not\nrevision: 5\ndelete: true\n".encode())
    assert "does not exist, and revision 5 was expected" in missing.err
    assert revision_of(run, journal) == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: [a", "not YAML"),
        ("nome: a/journal", "unknown key 'nome'"),
        ("name: a/journal\nreplication: 9", "Replication"),
        ("name: a/journal\nfragment: {length: 10}", "expected"),
        ("name: /journal", "cannot begin with '/'"),
        ("name: a/journal\ndelete: true", "Revision"),
        ("name: a/", "names no journal"),
        ("", "names no journal"),
        ("- name: a/journal", "expected keys and values"),
    ],
)
def test_malformed_specs_are_one_line_that_names_the_place(run: Run, text: str, told: str) -> None:
    refused = run("apply", stdin=text.encode())
    assert refused.code == 2
    assert told in refused.err
    assert "standard input" in refused.err
    assert len(refused.err.splitlines()) == 1


def test_what_cannot_be_read_or_chosen_is_wrong_usage(run: Run) -> None:
    assert "cannot read nothing.yaml" in run("apply", "--specs", "nothing.yaml").err
    assert run("list", "-l", "a=(b").code == 2
    assert run("list", "--format", "xml").code == 2
    assert run("list", "bad//name").code == 2
    unknown = run("list", "no/such/journal", "--json")
    assert (unknown.code, json.loads(unknown.err)["error"]["type"]) == (1, "JournalNotFound")
    assert run("list", "-l", "name=no/such/journal").out == "no journals\n"


def test_brokers_that_cannot_be_reached_are_given_up_after_the_patience(run: Run) -> None:
    gone = run("list", "--broker", "127.0.0.1:1", "--set", "journal.patience=200ms")
    assert gone.code == 1
    assert gone.err.startswith("windrow: error: cannot reach broker at http://127.0.0.1:1")
    assert len(gone.err.splitlines()) == 1


def test_a_watched_list_is_printed_again_after_each_change(
    run: Run, create: Create, broker: Broker, tmp_path: Path
) -> None:
    journal = create()
    out = tmp_path / "watched"
    with out.open("wb") as file:
        watcher = subprocess.Popen(
            [
                *(sys.executable, "-m", "windrow", "journal", "list", "--watch", journal),
                *("--broker", broker.address, "-L", "stage"),
            ],
            stdout=file,
            stderr=subprocess.PIPE,
        )
    try:
        wait_for(lambda: out.read_text().count(journal) == 1)
        tree = yaml.safe_load(run("list", journal, "--format", "yaml").out)
        tree["labels"].append({"name": "stage", "value": "two"})
        tree["labels"].sort(key=lambda label: label["name"])
        assert run("apply", stdin=yaml.safe_dump(tree).encode()).code == 0
        wait_for(lambda: out.read_text().rstrip().endswith("two"))
        watcher.send_signal(signal.SIGINT)
        _, err = watcher.communicate(timeout=20)
    finally:
        watcher.kill()
        watcher.communicate()
    assert (watcher.returncode, err) == (130, b"")


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *scripts: str) -> Path:
    """An editor that runs one script after the other on the file, and keeps what it saw."""
    seen = tmp_path / "seen"
    seen.mkdir()
    program = tmp_path / "editor.sh"
    rounds = "\n".join(f"  {at}) {script} ;;" for at, script in enumerate(scripts))
    program.write_text(
        f'#!/bin/sh\nat=$(ls {seen} | wc -l)\ncp "$1" {seen}/$at\ncase $at in\n{rounds}\nesac\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", "")
    monkeypatch.setenv("EDITOR", str(program))
    return seen


def test_an_edited_spec_is_applied_and_a_refused_one_is_opened_again_with_the_reason(
    run: Run, create: Create, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = create()
    seen = editor(
        tmp_path,
        monkeypatch,
        "sed -i 's/^replication: 1/replication: 7/' $1",
        "sed -i 's/^replication: 7/replication: 2/' $1",
    )
    edited = run("edit", journal)
    assert edited.code == 0, edited.err
    assert "update" in edited.out
    first, second = ((seen / str(at)).read_text().splitlines() for at in (0, 1))
    assert first[0].startswith("# Change what you like")
    assert "Replication" in second[0]
    assert second[0].startswith("# ")
    assert "replication: 7" in second  # what was written is not lost
    [listed] = json.loads(run("list", journal, "--json").out)
    assert listed["replication"] == 2


def test_an_edit_that_comes_too_late_is_opened_again_with_the_present_revision(
    run: Run, create: Create, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = create()
    before = revision_of(run, journal)
    seen = editor(
        tmp_path,
        monkeypatch,
        f"sed -i 's/^replication: 1/replication: 2/; s/^revision: .*/revision: {before + 9}/' $1",
        "true",
    )
    abandoned = run("edit", journal)
    assert abandoned.code == 1
    assert f"is at revision {before}" in (seen / "1").read_text().splitlines()[0]
    kept = Path(abandoned.err.split("--specs ")[1].split('"')[0])
    assert "replication: 2" in kept.read_text()
    kept.unlink()
    assert revision_of(run, journal) == before


def test_an_edit_without_a_change_does_nothing(
    run: Run, create: Create, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = create()
    before = revision_of(run, journal)
    editor(tmp_path, monkeypatch, "true")
    assert run("edit", journal).out == "nothing was changed\n"
    assert revision_of(run, journal) == before
    monkeypatch.setenv("EDITOR", "no-such-editor-anywhere")
    assert "cannot be started" in run("edit", journal).err
