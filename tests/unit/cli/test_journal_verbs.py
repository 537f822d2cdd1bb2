"""What the verbs of ``windrow journal`` decide before any broker is asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from windrow.cli.journal_edit import noted, without_note
from windrow.cli.journal_heads import Finding
from windrow.cli.journal_offsets import load_offsets, save_offsets
from windrow.cli.journal_printing import Framed, Raw, printer_of
from windrow.cli.main import main
from windrow.config.journal import JournalTls
from windrow.errors import InvalidValue
from windrow.journal.client.configured import tls_of
from windrow.journal.client.requests import Chunk
from windrow.journal.labels import LabelSet
from windrow.journal.message.framing import LineUnframer
from windrow.journal.spec import JournalSpec


@pytest.mark.parametrize(
    "argv",
    [
        ("list",),
        ("apply", "--specs", "specs.yaml"),
        ("edit",),
        ("append", "a/journal"),
        ("read", "a/journal", "--records"),
        ("fragments",),
        ("prune", "a/journal"),
        ("reset-head", "a/journal"),
        ("suspend", "a/journal"),
        ("store-health",),
    ],
    ids=lambda argv: argv[0],
)
def test_a_missing_extra_is_one_line_that_names_it(
    argv: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [name for name in os.environ if name.startswith(("WINDROW__", "WINDROW_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs.yaml").write_text("name: a/journal\nrevision: -1\ndelete: true\n")
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert main(["journal", *argv]) == 2
    told = capsys.readouterr().err
    assert told == "windrow: error: 'grpc' is not installed; run: pip install 'windrow[journal]'\n"


def test_a_note_above_the_text_is_no_part_of_it() -> None:
    text = "name: a/journal\n# mine\nrevision: 3\n"
    assert noted(text, "two\nlines").startswith("# two\n# lines\nname:")
    assert without_note(noted(text, "two\nlines")) == text
    assert without_note("# only\n") == ""


def test_tls_is_read_from_its_files_and_a_missing_one_is_named(tmp_path: Path) -> None:
    assert tls_of(JournalTls()) is None
    (tmp_path / "ca.pem").write_bytes(b"authority")
    tls = tls_of(JournalTls(ca_file=str(tmp_path / "ca.pem"), server_name="brokers"))
    assert tls is not None
    assert (tls.authority, tls.certificate, tls.server_name) == (b"authority", None, "brokers")
    with pytest.raises(InvalidValue, match=r"journal\.tls\.ca_file.*cannot be read"):
        tls_of(JournalTls(ca_file=str(tmp_path / "not-there.pem")))


def test_offsets_are_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    save_offsets(path, {"a/journal": 1, "b/journal": 2})
    assert load_offsets(path) == {"a/journal": 1, "b/journal": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["offsets.json"]
    assert load_offsets(None) == {}


def test_lines_of_several_journals_are_printed_whole() -> None:
    printer = Framed(LineUnframer(100))
    assert printer.feed(Chunk(100, b"one\ntw")) == (b"one\n", 104)
    assert printer.feed(Chunk(106, b"o")) == (b"", 104)
    assert printer.feed(Chunk(107, b"\nthree")) == (b"two\n", 108)
    printer.jump(200)
    assert printer.feed(Chunk(200, b"four\n")) == (b"four\n", 205)


def test_a_journal_alone_or_of_unknown_content_is_printed_as_it_is() -> None:
    lines = JournalSpec("a/journal", labels=LabelSet.of({"content-type": "application/x-ndjson"}))
    assert isinstance(printer_of(lines, 0, is_alone=True, as_records=False), Raw)
    assert isinstance(printer_of(lines, 0, is_alone=False, as_records=False), Framed)
    unknown = JournalSpec("a/journal")
    assert isinstance(printer_of(unknown, 0, is_alone=False, as_records=False), Raw)
    assert Raw().feed(Chunk(5, b"abc")) == (b"abc", 8)


def test_what_reset_head_will_do_is_said_before() -> None:
    said = {
        (is_lost, lacks): Finding("a/journal", 7, is_lost, lacks).action
        for is_lost in (False, True)
        for lacks in (False, True)
    }
    assert said == {
        (False, False): "nothing",
        (False, True): "rebuild its registers from its content",
        (True, False): "begin anew at 7",
        (True, True): "begin anew at 7, with registers rebuilt from its content",
    }
