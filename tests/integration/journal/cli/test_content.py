"""``windrow journal append``, ``read`` and ``fragments``."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.journal.cli.conftest import Create, Run, wait_for
from windrow.embedded.broker import Broker
from windrow.journal.client.mapping import modulo, rendezvous
from windrow.journal.client.sync import connect
from windrow.journal.message.framing import fixed_frame
from windrow.journal.message.record import Record


def test_input_is_one_append_and_read_back_byte_by_byte(
    run: Run, create: Create, tmp_path: Path
) -> None:
    journal = create()
    binary = bytes(range(256)) * 1000
    (tmp_path / "one").write_bytes(b"first")
    (tmp_path / "two").write_bytes(binary)
    done = run("append", journal, "-i", "one", "-i", "two", "--json")
    assert json.loads(done.out) == [
        {"journal": journal, "records": 1, "bytes": 256_005, "begin": 0, "end": 256_005}
    ]
    assert run("append", journal, stdin=b"second").code == 0
    assert run("read", journal).raw == b"first" + binary + b"second"
    run("read", journal, "-o", "out")
    assert (tmp_path / "out").read_bytes() == b"first" + binary + b"second"


def test_large_input_is_still_one_append(run: Run, create: Create, tmp_path: Path) -> None:
    """Larger than what is kept in memory, it is streamed from a file."""
    journal = create(length=1 << 26)
    content = os.urandom(1 << 20) * 17
    (tmp_path / "large").write_bytes(content)
    [done] = json.loads(run("append", journal, "-i", "large", "--json").out)
    assert (done["records"], done["begin"], done["end"]) == (1, 0, len(content))
    read_back = run("read", journal).raw
    assert hashlib.sha1(read_back).digest() == hashlib.sha1(content).digest()


@pytest.mark.parametrize(("mapping", "mapped"), [("modulo", modulo), ("rendezvous", rendezvous)])
def test_records_go_where_their_keys_map_them_in_their_order(
    run: Run, create: Create, mapping: str, mapped: Callable[[bytes, list[str]], str]
) -> None:
    first = create("a")
    home = first.removesuffix("a")
    journals = sorted([first, create(f"{home}b"), create(f"{home}c")])
    records = [(f"key-{n % 5}".encode(), f"record {n}\n".encode()) for n in range(60)]
    stream = b"".join(key + b"\n" + record for key, record in records)
    done = run("append", "-l", f"prefix={home}", "-f", "lines", "-m", mapping, stdin=stream)
    assert done.code == 0, done.err
    for journal in journals:
        expected = b"".join(r for key, r in records if mapped(key, journals) == journal)
        assert run("read", journal).raw == expected


def test_direct_records_name_their_journal_and_no_other_than_those_selected(
    run: Run, create: Create
) -> None:
    one, two, other = create(), create(), create()
    stream = b"".join(
        fixed_frame(journal.encode()) + fixed_frame(text)
        for journal, text in [(one, b"1"), (two, b"2"), (one, b"3")]
    )
    done = run("append", one, two, "-f", "fixed", "-m", "direct", "--json", stdin=stream)
    assert {row["journal"]: row["records"] for row in json.loads(done.out)} == {one: 2, two: 1}
    assert run("read", one).raw == fixed_frame(b"1") + fixed_frame(b"3")
    refused = run(
        "append", one, two, "-f", "lines", "-m", "direct", stdin=f"{other}\nrecord\n".encode()
    )
    assert refused.code == 1
    assert "it is not among those selected" in refused.err
    assert run("read", other).raw == b""


def test_an_append_can_insist_on_the_offset_and_the_registers(run: Run, create: Create) -> None:
    journal = create()
    owner = ("--check-registers", "owner=anna")
    assert run("append", journal, "--union-registers", "owner=anna", stdin=b"one ").code == 0
    assert run("append", journal, *owner, "--offset", "4", stdin=b"two ").code == 0
    late = run("append", journal, *owner, "--offset", "4", stdin=b"late ")
    assert (late.code, "WRONG_APPEND_OFFSET" in late.err) == (1, True)
    handed = run("append", journal, *owner, "--union-registers", "owner=berta", stdin=b"three ")
    assert handed.code == 0
    fenced = run("append", journal, *owner, stdin=b"fenced ")
    assert (fenced.code, "owner=berta" in fenced.err) == (1, True)
    assert run("read", journal).raw == b"one two three "


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["-m", "modulo"], "goes by keys"),
        (["-f", "lines", "--base64"], "--base64 is for keys"),
        (["-f", "lines", "--offset", "5"], "leave out --framing"),
        (["-f", "sacks"], "no such framing"),
        (["-f", "lines", "-m", "magic"], "no such mapping"),
        (["-i", "not-there"], "cannot read not-there"),
        (["--union-registers", "owner!=b"], "write registers as"),
        (["--check-registers", "((("], "Selector"),
    ],
)
def test_wrong_usage_of_append_changes_nothing(
    run: Run, create: Create, flags: list[str], told: str
) -> None:
    journal = create()
    refused = run("append", journal, *flags, stdin=b"record\n")
    assert (refused.code, told in refused.err) == (2, True), refused.err
    assert len(refused.err.splitlines()) == 1
    assert run("read", journal).raw == b""


def test_a_verb_wants_a_journal_that_exists(run: Run, create: Create) -> None:
    create()
    for verb in ("append", "read", "fragments", "reset-head", "suspend", "prune"):
        unknown = run(verb, "no/such/journal")
        assert (unknown.code, "JOURNAL_NOT_FOUND" in unknown.err) == (1, True), verb
        assert run(verb, "-l", "a ( b").code == 2, verb
        if verb != "fragments":
            assert "name a journal" in run(verb).err, verb
        none = run(verb, "-l", "label=of-nobody")
        assert (none.code, "no journal matches" in none.err) == (1, True), verb


def test_a_read_goes_on_where_the_last_one_ended(run: Run, create: Create, tmp_path: Path) -> None:
    journal = create()
    offsets = tmp_path / "offsets.json"
    offsets.write_text('{"another/journal": 7}')
    again = ("read", journal, "--offsets", str(offsets), "--offsets-out", str(offsets))
    run("append", journal, stdin=b"one\n")
    assert run(*again).raw == b"one\n"
    run("append", journal, stdin=b"two\n")
    assert run(*again).raw == b"two\n"
    assert run(*again).raw == b""
    assert json.loads(offsets.read_text()) == {"another/journal": 7, journal: 8}
    run("read", journal, "--tail", "--offsets-out", "tail.json")
    assert json.loads((tmp_path / "tail.json").read_text()) == {journal: 8}
    for wrong in ("not json", "[1]", '{"a": -1}', '{"a": "b"}'):
        offsets.write_text(wrong)
        assert run(*again).code == 2


def test_records_are_printed_as_lines_of_json(run: Run, create: Create, broker: Broker) -> None:
    journal = create(labels={"windrow.dev/sequenced": ""})
    with connect(broker.address) as client:
        client.sequenced(journal, "shop").append(
            [
                Record(key=b"anna", value=b"tea", topic="orders", headers=(("trace", b"1"),)),
                Record(key=None, value=b"\xff"),
            ]
        )
    first, second = map(json.loads, run("read", journal, "--records").out.splitlines())
    assert (first["journal"], first["seq"], first["key"], first["value"], first["topic"]) == (
        journal,
        0,
        "anna",
        "tea",
        "orders",
    )
    assert first["headers"] == [{"name": "trace", "value": "1"}]
    assert (second["seq"], second["key"], second["value_base64"]) == (1, None, "/w==")
    assert second["offset"] > first["offset"] > 0  # the head of the append lies before


def test_fragments_are_listed_with_what_their_store_says(
    run: Run, create: Create, broker: Broker
) -> None:
    journal = create()
    for content in (b"one", b"two"):  # the first fragment is rolled by the second append
        run("append", journal, stdin=content)

    def stored() -> list[dict[str, Any]]:
        listed = json.loads(run("fragments", journal, "--url-ttl", "1m", "--json").out)
        return [fragment for fragment in listed if fragment["stored"]]

    [first] = wait_for(stored)
    assert (first["begin"], first["end"], first["store"]) == (0, 3, "file:///")
    assert first["sha1"] == hashlib.sha1(b"one").hexdigest()
    assert first["url"].startswith("file:///")
    assert len(run("fragments", journal).out.splitlines()) == 3
    assert json.loads(run("fragments", journal, "--to", "1h", "--json").out) == []
    assert json.loads(run("fragments", journal, "--from", "1h", "--to", "0s", "--json").out)
    assert run("fragments", journal, "--from", "soon").code == 2
    assert run("fragments", journal, "--url-ttl", "5").code == 2
    root = broker.flags["file-root"]
    assert run("read", journal, "--direct", "--file-root", root).raw == b"onetwo"


def test_a_blocking_read_follows_journals_as_they_come_and_saves_its_offsets(
    run: Run, create: Create, broker: Broker, tmp_path: Path
) -> None:
    """Lines of several journals do not run into each other, and SIGTERM ends it well."""
    ndjson = {"content-type": "application/x-ndjson"}
    first = create("one", ndjson)
    home = first.removesuffix("one")
    run("append", first, stdin=b'{"n":1}\n{"n"')
    out = tmp_path / "followed"
    reader = subprocess.Popen(
        [
            *(sys.executable, "-m", "windrow", "journal", "read", "-l", f"prefix={home}"),
            *("--block", "--broker", broker.address, "-o", str(out)),
            *("--offsets-out", "offsets.json"),
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: out.exists() and out.read_bytes() == b'{"n":1}\n')
        second = create(f"{home}two", ndjson)
        run("append", second, stdin=b'{"n":2}\n')
        wait_for(lambda: out.read_bytes() == b'{"n":1}\n{"n":2}\n')
        run("append", first, stdin=b":3}\n")
        wait_for(lambda: out.read_bytes() == b'{"n":1}\n{"n":2}\n{"n":3}\n')
        run("append", first, stdin=b'{"half')
        run("append", second, stdin=b'{"n":4}\n')
        wait_for(lambda: out.read_bytes().endswith(b'{"n":4}\n'))
    finally:
        reader.send_signal(signal.SIGTERM)
        _, err = reader.communicate(timeout=20)
    assert (reader.returncode, err) == (0, "")
    # Half a line was not printed, so the next read begins with it.
    assert json.loads((tmp_path / "offsets.json").read_text()) == {first: 16, second: 16}


def test_records_are_appended_as_they_arrive_and_ctrl_c_ends_it(
    run: Run, create: Create, broker: Broker
) -> None:
    journal = create()
    writer = subprocess.Popen(
        [
            *(sys.executable, "-m", "windrow", "journal", "append", journal, "-f", "lines"),
            *("--broker", broker.address),
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writer.stdin is not None
    assert writer.stderr is not None
    try:
        writer.stdin.write(b"one\ntwo\nhal")
        writer.stdin.flush()
        wait_for(lambda: run("read", journal).raw == b"one\ntwo\n")
        writer.send_signal(signal.SIGINT)
        assert (writer.wait(timeout=20), writer.stderr.read()) == (130, b"")
    finally:
        writer.kill()
        writer.wait()
        writer.stdin.close()
        writer.stderr.close()
    assert run("read", journal).raw == b"one\ntwo\n"
