from __future__ import annotations

import json

import pytest

from windrow.cli.output import print_json, print_line, print_rows
from windrow.config import Dsn, Secret

ROWS: list[dict[str, str | None]] = [
    {"key": "a", "value": "x" * 300},
    {"key": "b[bold]", "value": None},
]


def test_into_a_pipe_every_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, as_json=False)
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["key", "value"]
    assert first.split() == ["a", "x" * 300]
    assert second == "b[bold]"


def test_json_is_a_list_of_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS


@pytest.mark.parametrize(("as_json", "printed"), [(True, "[]\n"), (False, "\n")])
def test_no_rows_are_printed_as_nothing(
    as_json: bool, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([], as_json=as_json)
    assert capsys.readouterr().out == printed


def test_secret_that_reaches_the_output_stays_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    secrets = {"password": Secret("q7"), "dsn": Dsn("postgresql://a:q7@db/x")}
    print_json(secrets)
    print_rows([secrets], as_json=False)
    assert "q7" not in capsys.readouterr().out


def test_bytes_that_are_no_text_are_printed_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    """A variable may hold any bytes; the stream refuses them."""
    undecodable = b"\xff".decode(errors="surrogateescape")
    print_line(undecodable)
    print_rows([{"key": undecodable}], as_json=False)
    print_json(undecodable)
    assert capfd.readouterr().out.split() == ["\\udcff", "key", "\\udcff", '"\\udcff"']
