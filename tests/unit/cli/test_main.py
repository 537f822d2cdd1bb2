"""The command line in this process and, where imports or signals matter, in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windrow.cli import nouns
from windrow.cli.main import main
from windrow.errors import Failed, StartFailed, Unreachable
from windrow.version import __version__

WINDROW = [sys.executable, "-m", "windrow"]


@pytest.fixture(autouse=True)
def _clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith(("WINDROW__", "WINDROW_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("WINDROW_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def run(*argv: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command line."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = main(argv)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def add_noun(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """A noun ``try`` that does what the test wants."""

    def add(function: Callable[..., Any]) -> None:
        module = types.ModuleType("windrow_tried")
        vars(module)["app"] = typer.Typer(add_completion=False)
        vars(module)["app"].command()(function)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        noun = nouns.Noun("try", "windrow_tried:app", "Try something.")
        monkeypatch.setattr(nouns, "NOUNS", (*nouns.NOUNS, noun))

    return add


# --- help, version, completion ------------------------------------------------------------------


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_no_noun_and_nothing_heavy(argument: str) -> None:
    source = (
        "import sys; from windrow.cli.main import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, argument], capture_output=True, text=True, check=True
    )
    modules = set(done.stderr.split())
    assert "windrow.cli.nouns" in modules
    heavy = {"psycopg", "confluent_kafka", "pyspark", "grpc", "pydantic", "structlog", "rich"}
    targets = {noun.target.partition(":")[0] for noun in nouns.NOUNS}
    assert modules & (heavy | targets | {"windrow.config", "windrow.demo"}) == set()


def test_help_lists_every_noun() -> None:
    code, out, _ = run("--help")
    assert code == 0
    for noun in nouns.NOUNS:
        assert f"  {noun.name} " in out
        assert noun.help in out


@pytest.mark.parametrize("noun", nouns.NOUNS, ids=lambda noun: noun.name)
def test_noun_answers_help_with_what_the_table_says_of_it(noun: nouns.Noun) -> None:
    code, out, _ = run(noun.name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: windrow {noun.name} ")
    assert "--install-completion" not in out


def test_version_is_the_one_of_the_package() -> None:
    assert run("--version") == (0, f"windrow {__version__}\n", "")


def test_no_noun_at_all_shows_the_help_and_is_wrong_usage() -> None:
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: windrow ")


def complete(*words: str) -> list[str]:
    line = "windrow " + " ".join(words)
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        WINDROW,
        env={**os.environ, "_WINDROW_COMPLETE": "complete_bash", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_shell_completes_nouns_commands_and_options() -> None:
    assert complete("") == [noun.name for noun in nouns.NOUNS]
    assert complete("do") == ["doctor"]
    assert complete("config", "") == ["show", "check"]
    assert "--json" in complete("config", "show", "--")
    assert "--dsn" in complete("doctor", "--d")


def test_completion_can_be_installed_by_its_script() -> None:
    done = subprocess.run(
        [*WINDROW, "--show-completion", "bash"],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_WINDROW_COMPLETE=complete_bash" in done.stdout


# --- config -------------------------------------------------------------------------------------


def test_config_show_names_the_source_of_every_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "windrow.toml").write_text(
        '[database]\ntable = "shop.outbox"\nconnect_timeout = "250ms"\n'
        'dsn = "postgresql://anna:q7secret@db/shop"\n'
    )
    monkeypatch.setenv("WINDROW__DATABASE__TABLE", "from_environment")
    monkeypatch.setenv("WINDROW__HTTP__PORT", "9464")
    code, out, err = run(
        "--log-level", "debug", "config", "show", "--json", "--set", "http.port=9465"
    )
    assert (code, err) == (0, "")
    rows = {row["key"]: (row["value"], row["source"]) for row in json.loads(out)}
    assert rows.pop("relay.drain_timeout") == ("10s", "default")
    assert rows.pop("database.answer_timeout") == ("10s", "default")
    assert {
        k: v
        for k, v in rows.items()
        if not k.startswith(("graph.", "kafka.", "relay.", "journal."))
    } == {
        "database.password": (None, "default"),
        "database.dsn": ("postgresql://anna:***@db/shop", "windrow.toml"),
        "database.table": ("from_environment", "environment WINDROW__DATABASE__TABLE"),
        "database.connect_timeout": ("250ms", "windrow.toml"),
        "log.level": ("debug", "--log-level"),
        "log.format": ("console", "default"),
        "http.host": ("127.0.0.1", "default"),
        "http.port": (9465, "--set http.port"),
    }


def test_config_show_is_a_table_for_people() -> None:
    code, out, _ = run("config", "show", "--set", "database.table=t")
    assert code == 0
    assert ["database.table", "t", "--set", "database.table"] in [
        line.split() for line in out.splitlines()
    ]


def test_options_stand_before_the_noun_or_after_the_command(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('[http]\nhost = "::1"\n')
    before = run("--config", "other.toml", "--set", "http.port=1", "config", "show", "--json")
    after = run("config", "show", "--config", "other.toml", "--set", "http.port=1", "--json")
    assert before == after
    assert '"::1"' in after[1]


def test_flag_of_the_command_beats_the_one_before_the_noun() -> None:
    _, out, _ = run("--set", "http.port=1", "config", "show", "--json", "--set", "http.port=2")
    assert {"key": "http.port", "value": 2, "source": "--set http.port"} in json.loads(out)


def test_config_check_tells_every_mistake_on_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "windrow.toml").write_text('[database]\ntabel = "x"\n[http]\nport = 70000\n')
    monkeypatch.setenv("WINDROW__LOG__LEVLE", "info")
    code, out, err = run("config", "check", "--set", "database.connect_timeout=5")
    assert (code, out) == (2, "")
    assert sorted(err.splitlines()) == [
        'windrow: error: "database.connect_timeout" in --set database.connect_timeout is "5":'
        " not a duration; write it as 250ms, 1.5s, 2m or 1h30m",
        'windrow: error: "http.port" in windrow.toml is 70000:'
        " input should be less than or equal to 65535",
        'windrow: error: unknown key "WINDROW__LOG__LEVLE" in environment;'
        ' did you mean "WINDROW__LOG__LEVEL"?',
        'windrow: error: unknown key "database.tabel" in windrow.toml;'
        ' did you mean "database.table"?',
    ]


def test_config_check_of_a_good_file_names_the_sources(tmp_path: Path) -> None:
    (tmp_path / "windrow.toml").write_text("[http]\nport = 1\n")
    assert run("config", "check") == (0, "configuration ok (default, windrow.toml)\n", "")
    code, out, _ = run("config", "check", "--json")
    assert (code, json.loads(out)) == (0, {"ok": True, "sources": ["default", "windrow.toml"]})


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["config"], "missing command; see: windrow config --help"),
        (["confg"], "no such command 'confg'. Did you mean 'config'? See: windrow --help"),
        (["config", "show", "--jsn"], "no such option: --jsn"),
        (["config", "show", "--set", "x"], "invalid value for --set: write it as KEY=VALUE"),
        (["--config", "no.toml", "config", "show"], "cannot read configuration no.toml: No such"),
        (["config", "show", "--set", "a=b"], 'unknown key "a" in flags'),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_two(argv: list[str], line: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"windrow: error: {line}")
    assert err.count("\n") == 1


def test_error_is_json_where_json_was_asked_for() -> None:
    code, out, err = run("config", "show", "--json", "--set", "database.tabel=x")
    assert (code, out) == (2, "")
    message = 'unknown key "database.tabel" in flags; did you mean "database.table"?'
    assert json.loads(err) == {"error": {"type": "UnknownKey", "message": message}}


def test_several_errors_are_listed_in_json() -> None:
    _, _, err = run("config", "check", "--json", "--set", "a=1", "--set", "b=1")
    error = json.loads(err)["error"]
    assert error["type"] == "SeveralMistakes"
    assert error["message"].splitlines() == [
        'unknown key "a" in flags',
        'unknown key "b" in flags',
    ]
    assert [mistake["type"] for mistake in error["mistakes"]] == ["UnknownKey", "UnknownKey"]


def test_wrong_usage_is_json_too() -> None:
    code, _, err = run("config", "shwo", "--json")
    assert code == 2
    assert json.loads(err)["error"]["type"] == "UsageError"


def test_failure_of_a_service_ends_with_one(add_noun: Callable[..., None]) -> None:
    def fail() -> None:
        raise Unreachable("PostgreSQL", "db:5432", "Connection refused")

    add_noun(fail)
    line = "windrow: error: cannot reach PostgreSQL at db:5432: Connection refused\n"
    assert run("try") == (1, "", line)


def test_log_tail_of_an_error_is_kept_apart_from_its_line(add_noun: Callable[..., None]) -> None:
    def fail() -> None:
        raise StartFailed("PostgreSQL", "it ended", "FATAL: no room\npassword=q7secret")

    add_noun(fail)
    assert run("try")[2].splitlines() == [
        "windrow: error: PostgreSQL did not start: it ended",
        "  FATAL: no room",
        "  password=***",
    ]


def test_unexpected_error_is_one_line_that_says_how_to_see_more(
    add_noun: Callable[..., None],
) -> None:
    def fail() -> None:
        raise LookupError("nothing\n  there")

    add_noun(fail)
    assert run("try") == (
        1,
        "",
        "windrow: error: LookupError: nothing there"
        " (unexpected; set WINDROW_DEBUG=1 for the traceback)\n",
    )


def test_traceback_comes_on_demand_and_redacted(
    add_noun: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise LookupError("postgresql://anna:q7secret@db/shop")

    monkeypatch.setenv("WINDROW_DEBUG", "1")
    add_noun(fail)
    code, _, err = run("try")
    assert code == 1
    assert "Traceback" in err
    assert "LookupError: postgresql://anna:***@db/shop" in err
    assert "q7secret@" not in err.replace('raise LookupError("postgresql://anna:q7secret@', "")


def test_interrupt_is_quiet_and_has_its_own_exit_code(add_noun: Callable[..., None]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    add_noun(interrupt)
    assert run("try") == (130, "", "")


def test_exit_code_of_a_command_is_kept(add_noun: Callable[..., None]) -> None:
    def found_problems() -> None:
        raise typer.Exit(1)

    add_noun(found_problems)
    assert run("try") == (1, "", "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["config", "show"]])
def test_reader_that_leaves_early_is_no_error(argv: list[str], unbuffered: str) -> None:
    """It is met while printing or, if the output was held back, at the very end."""
    process = subprocess.Popen(
        [*WINDROW, *argv],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process, process.stderr as errors:
        assert errors.read() == b""
        assert process.wait(30) == 1


def test_missing_extra_is_one_line_and_exit_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [name for name in sys.modules if name.split(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    line = "windrow: error: 'psycopg' is not installed; run: pip install 'windrow[postgres]'\n"
    assert run("doctor") == (2, "", line)


# --- secrets ------------------------------------------------------------------------------------

PASSWORDS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=4, max_size=30
).map(lambda text: f"q7{text}z9")


def dsn_as_uri(password: str) -> str:
    return f"postgresql://anna:{quote(password, safe='')}@127.0.0.1:1/shop"


def dsn_unquoted(password: str) -> str:
    return f"postgresql://anna:{password}@127.0.0.1:1/shop"


def dsn_as_port(password: str) -> str:
    return f"postgresql://127.0.0.1:{password}/shop"


def dsn_as_pairs(password: str) -> str:
    return f"host=127.0.0.1 port=1 password={password}"


def bare(password: str) -> str:
    return password


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    password=PASSWORDS,
    written=st.sampled_from([dsn_as_uri, dsn_unquoted, dsn_as_port, dsn_as_pairs, bare]),
    key=st.sampled_from(
        ["database.dsn", "database.password", "database.pasword", "databse.dsn", "database.dsn.x"]
    ),
    source=st.sampled_from(["flag", "environment", "toml", "yaml", "broken toml", "broken yaml"]),
    command=st.sampled_from([["config", "show"], ["config", "check"]]),
    as_json=st.booleans(),
    debug=st.booleans(),
    breaks=st.booleans(),
)
def test_no_password_appears_whatever_goes_wrong(
    password: str,
    written: Callable[[str], str],
    key: str,
    source: str,
    command: list[str],
    as_json: bool,
    debug: bool,
    breaks: bool,
) -> None:
    argv = [*command, *(["--json"] if as_json else [])]
    argv += ["--set", "http.port=-1"] if breaks else []
    value, environ = written(password), {"WINDROW_DEBUG": "1" if debug else ""}
    if source == "flag":
        argv += ["--set", f"{key}={value}"]
    elif source == "environment":
        environ["WINDROW__" + key.replace(".", "__").upper()] = value
    else:
        argv += ["--config", _file_with(source, key, value)]
    with pytest.MonkeyPatch.context() as patch:
        for name, content in environ.items():
            patch.setenv(name, content)
        _, out, err = run(*argv)
    assert password not in out + err
    assert json.dumps(password)[1:-1] not in out + err
    assert quote(password, safe="") not in out + err


def _file_with(source: str, key: str, value: str) -> str:
    path = Path(f"written.{source.split()[-1]}")
    section, _, name = key.partition(".")
    if source == "toml":
        text = f"[{section}]\n{name} = {json.dumps(value)}\n"
    elif source == "broken toml":
        text = f"[{section}]\n{name} = {value}\n"
    elif source == "yaml":
        text = json.dumps({section: {name: value}})
    else:
        text = f"{section}:\n  {name}: {value}\n"
    path.write_bytes(text.encode())
    return str(path)


def test_failure_that_names_a_password_is_told_without_it(add_noun: Callable[..., None]) -> None:
    """The net below everything: a driver's own words, brought along by an error."""

    def fail() -> None:
        raise Failed("sasl.password=q7secret was refused")

    add_noun(fail)
    assert run("try")[2] == "windrow: error: sasl.password=*** was refused\n"
