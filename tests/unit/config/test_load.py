from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.config import Setting, load
from windrow.config.files import read_file
from windrow.errors import ConfigError, InvalidValue, UnreadableConfig


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_any_source_everything_is_default() -> None:
    resolved = load(environ={})
    assert str(resolved.config.database.dsn) == "postgresql://localhost/postgres"
    assert set(resolved.origin_of.values()) == {"default"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conf.toml", '[database]\ntable = "shop.outbox"\nconnect_timeout = "250ms"\n'),
        ("conf.yaml", "database:\n  table: shop.outbox\n  connect_timeout: 250ms\n"),
        ("conf.yml", "database: {table: shop.outbox, connect_timeout: 250ms}\n"),
    ],
)
def test_toml_and_yaml_say_the_same(name: str, text: str) -> None:
    Path(name).write_text(text)
    resolved = load(Path(name), environ={})
    assert resolved.config.database.table == "shop.outbox"
    assert resolved.config.database.connect_timeout == 0.25
    assert resolved.origin_of["database.table"] == name


def test_named_file_beats_the_variable_beats_the_one_in_the_directory() -> None:
    for name in ("windrow.toml", "variable.toml", "named.toml"):
        Path(name).write_text(f'[log]\nlevel = "error"\n[http]\nhost = "{name}"\n')
    environ = {"WINDROW_CONFIG": "variable.toml"}
    assert load(environ={}).config.http.host == "windrow.toml"
    assert load(environ=environ).config.http.host == "variable.toml"
    assert load(Path("named.toml"), environ=environ).config.http.host == "named.toml"


def test_empty_file_sets_nothing() -> None:
    for name in ("empty.toml", "empty.yaml"):
        Path(name).write_text("# nothing yet\n")
        assert set(load(Path(name), environ={}).origin_of.values()) == {"default"}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("missing.toml", None, "No such file or directory"),
        ("conf.ini", b"", 'its name must end in ".toml", ".yaml" or ".yml"'),
        ("conf.toml", b"[database]\nx\n", "line 2"),
        ("conf.toml", b"\xff\xfe", "byte 0 is not UTF-8 text"),
        ("conf.yaml", b"a: [1", "line 1"),
        ("conf.yaml", b"a: \x07", "characters that YAML does not allow"),
        ("conf.yaml", b"- a\n- b\n", "it must hold sections"),
    ],
)
def test_unreadable_file_is_told_with_its_reason(
    name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    with pytest.raises(UnreadableConfig) as caught:
        load(Path(name), environ={})
    assert str(caught.value).startswith(f"cannot read configuration {name}: ")
    assert reason in str(caught.value)


@settings(max_examples=300)
@given(
    name=st.sampled_from(["conf.toml", "conf.yaml"]),
    password=st.text(st.characters(exclude_categories=["Cs"]), min_size=4).map(
        lambda text: f"q7{text}z9"
    ),
    template=st.sampled_from(
        [
            "[database]\npassword = {}\n",
            '[database]\npassword = "{}\n',
            "[database]\npassword = '{}' x\n",
            "[database]\n{}\n",
            "database:\n  password: *{}\n",
            "database:\n  password: !{} x\n",
            "database:\n  password: &{} *{}\n",
            "database:\n  password: {{ {} }}\n",
            'database:\n  password: "{}\n',
            "database:\n password: {}\n  x: 1\n",
            "%{}\n---\n",
        ]
    ),
)
def test_parser_error_never_quotes_the_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, password: str, template: str
) -> None:
    """A parser likes to show the line it stumbled over; that line may be the password's."""
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(template.replace("{}", password).encode())
    try:
        load(path, environ={})
    except ConfigError as error:
        message = str(error)
    else:
        message = ""
    assert password not in message


def test_secret_is_read_from_a_variable() -> None:
    Path("windrow.toml").write_text('[database]\ndsn = {env = "DATABASE_URL"}\n')
    resolved = load(environ={"DATABASE_URL": "postgresql://anna:q7@db/shop"})
    assert resolved.config.database.dsn.reveal() == "postgresql://anna:q7@db/shop"
    assert resolved.origin_of["database.dsn"] == "windrow.toml (env DATABASE_URL)"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_secret_is_read_from_a_file_without_the_newline_at_its_end(ending: str) -> None:
    Path("secret").write_bytes(b" q7 " + ending.encode())
    resolved = load(environ={"WINDROW__DATABASE__PASSWORD__FILE": "secret"})
    password = resolved.config.database.password
    assert password is not None
    assert password.reveal() == " q7 "


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        (("env", "NOT_SET"), "that environment variable is not set"),
        (("file", "missing"), "that file cannot be read: No such file or directory"),
        (("file", "binary"), "that file is not UTF-8 text"),
    ],
)
def test_reference_that_leads_nowhere_says_where(flag: tuple[str, str], reason: str) -> None:
    Path("binary").write_bytes(b"\xff")
    kind, name = flag
    with pytest.raises(InvalidValue) as caught:
        load(flags=[Setting(("database", "dsn", kind), name, "--set database.dsn")], environ={})
    assert str(caught.value) == f'"database.dsn" in --set database.dsn is {kind} {name}: {reason}'


def test_process_environment_is_read_when_no_other_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WINDROW__HTTP__PORT", "9464")
    assert load().config.http.port == 9464


@pytest.mark.proves("secrets-redacted")
def test_effective_configuration_never_prints_its_secrets() -> None:
    environ = {
        "WINDROW__DATABASE__DSN": "postgresql://anna:q7hidden@db/shop",
        "WINDROW__DATABASE__PASSWORD": "q8hidden",
    }
    resolved = load(environ=environ)
    printed = f"{resolved!r} {resolved.config} {resolved.config.model_dump_json()}"
    assert "hidden" not in printed
    assert resolved.config.database.dsn.reveal() == "postgresql://anna:q8hidden@db/shop"


def test_file_may_hold_keys_that_are_no_text() -> None:
    """YAML reads the bare word "on" as true."""
    Path("conf.yaml").write_text("on: 1\n")
    assert read_file(Path("conf.yaml")) == {True: 1}
    with pytest.raises(ConfigError, match='unknown key "True"'):
        load(Path("conf.yaml"), environ={})
