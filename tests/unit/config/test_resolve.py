from __future__ import annotations

import traceback
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, model_validator

from windrow.config import (
    Config,
    Dsn,
    Layer,
    Secret,
    Section,
    Setting,
    SeveralMistakes,
    dotted,
    environment_layer,
    file_layer,
    flag_layer,
    resolve,
)
from windrow.errors import ConfigError, InvalidValue, UnknownKey
from windrow.types import Duration


class Inner(Section):
    count: int = 1
    name: str = "inner"
    wait: Duration = 1.5
    key: Secret | None = None


class Outer(Section):
    inner: Inner = Inner()
    label: Annotated[str, Field(min_length=1)] = "outer"


PATHS = [("inner", "count"), ("inner", "name"), ("label",)]
DEFAULTS = {("inner", "count"): 1, ("inner", "name"): "inner", ("label",): "outer"}


@st.composite
def layers(draw: st.DrawFn) -> list[Layer]:
    """Up to four layers, each setting some of the keys to values of their own."""
    drawn = []
    for number in range(draw(st.integers(0, 4))):
        chosen = draw(st.lists(st.sampled_from(PATHS)))
        settings = [
            Setting(path, f"{number}{index}", f"layer {number} at {index}")
            for index, path in enumerate(chosen)
        ]
        drawn.append(Layer(f"layer {number}", tuple(settings)))
    return drawn


@given(layers())
def test_strongest_layer_that_sets_a_key_wins_and_is_named(drawn: list[Layer]) -> None:
    resolved = resolve(Outer, drawn)
    dumped = {**resolved.config.inner.model_dump(), **resolved.config.model_dump()}
    for path in PATHS:
        setting_it = [[s for s in layer.settings if s.path == path] for layer in drawn]
        winner = next((settings[-1] for settings in setting_it if settings), None)
        value = str(winner.value if winner else DEFAULTS[path])
        assert str(dumped[path[-1]]) == (str(int(value)) if path[-1] == "count" else value)
        assert resolved.origin_of[dotted(path)] == (winner.origin if winner else "default")


@pytest.mark.proves("config-strict")
def test_flags_beat_environment_beats_file_beats_default() -> None:
    file = file_layer("windrow.toml", {"inner": {"count": 1, "name": "f", "wait": "3s"}})
    environment = environment_layer({"WINDROW__INNER__COUNT": "2", "WINDROW__INNER__NAME": "e"})
    flags = flag_layer([Setting(("inner", "count"), "3", "--count")])
    resolved = resolve(Outer, [flags, environment, file])
    assert resolved.config == Outer(inner=Inner(count=3, name="e", wait=3.0))
    assert resolved.origin_of == {
        "inner.count": "--count",
        "inner.name": "environment WINDROW__INNER__NAME",
        "inner.wait": "windrow.toml",
        "inner.key": "default",
        "label": "default",
    }


@pytest.mark.proves("config-strict")
@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            file_layer("windrow.toml", {"inner": {"conut": 1}}),
            'unknown key "inner.conut" in windrow.toml; did you mean "inner.count"?',
        ),
        (
            file_layer("windrow.toml", {"iner": {"count": 1, "name": "x"}}),
            'unknown key "iner" in windrow.toml; did you mean "inner"?',
        ),
        (
            environment_layer({"WINDROW__COUNT": "1"}),
            'unknown key "WINDROW__COUNT" in environment; did you mean "WINDROW__INNER__COUNT"?',
        ),
        (
            environment_layer({"WINDROW__INER__CONT": "1"}),
            'unknown key "WINDROW__INER__CONT" in environment;'
            ' did you mean "WINDROW__INNER__COUNT"?',
        ),
        (
            environment_layer({"WINDROW__": "1"}),
            'unknown key "WINDROW__" in environment',
        ),
        (
            flag_layer([Setting(("lable",), "x", "--set lable")]),
            'unknown key "lable" in flags; did you mean "label"?',
        ),
        (
            file_layer("windrow.toml", {"zzz": {"qqqqqq": 1}}),
            'unknown key "zzz" in windrow.toml',
        ),
        (
            file_layer("windrow.toml", {"label": {"deep": 1}}),
            'unknown key "label.deep" in windrow.toml; did you mean "label"?',
        ),
    ],
)
def test_unknown_key_is_refused_with_the_nearest_known_name(layer: Layer, message: str) -> None:
    with pytest.raises(UnknownKey) as caught:
        resolve(Outer, [layer])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            environment_layer({"WINDROW__INNER__COUNT": "many"}),
            '"inner.count" in environment WINDROW__INNER__COUNT is "many":'
            " input should be a valid integer, unable to parse string as an integer",
        ),
        (
            file_layer("windrow.toml", {"inner": {"wait": 2}}),
            '"inner.wait" in windrow.toml is 2: has no unit; write it as 250ms, 1.5s, 2m or 1h30m',
        ),
        (
            file_layer("windrow.toml", {"inner": {"wait": 1.5}}),
            '"inner.wait" in windrow.toml is 1.5: has no unit;'
            " write it as 250ms, 1.5s, 2m or 1h30m",
        ),
        (
            flag_layer([Setting(("inner", "wait"), "soon", "--wait")]),
            '"inner.wait" in --wait is "soon": not a duration;'
            " write it as 250ms, 1.5s, 2m or 1h30m",
        ),
        (
            file_layer("windrow.toml", {"inner": "postgresql://a:q7@db"}),
            '"inner" in windrow.toml is of type str: it is a section; set inner.count',
        ),
        (
            file_layer("windrow.toml", {"label": "", "inner": {}}),
            '"inner" in windrow.toml is of type dict: it is a section; set inner.count',
        ),
    ],
)
def test_invalid_value_is_told_with_its_key_value_origin_and_reason(
    layer: Layer, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(Outer, [layer])
    assert message in str(caught.value).splitlines()


def test_all_mistakes_are_told_at_once_one_per_line() -> None:
    environment = environment_layer({"WINDROW__INNER__COUNT": "many"})
    file = file_layer("windrow.toml", {"lable": "x", "label": "", "inner": {"wait": 3}})
    with pytest.raises(SeveralMistakes) as caught:
        resolve(Outer, [environment, file])
    keys = {m.key for m in caught.value.mistakes if isinstance(m, UnknownKey | InvalidValue)}
    assert keys == {"inner.count", "lable", "label", "inner.wait"}
    assert len(str(caught.value).splitlines()) == 4


def test_values_that_contradict_each_other_are_told_by_their_section() -> None:
    class Pair(Section):
        low: int = 0
        high: int = 9

        @model_validator(mode="after")
        def _ordered(self) -> Pair:
            if self.low > self.high:
                raise ValueError("low is above high")
            return self

    class Whole(Section):
        pair: Pair = Pair()

    with pytest.raises(InvalidValue) as caught:
        resolve(Whole, [environment_layer({"WINDROW__PAIR__LOW": "10"})])
    assert str(caught.value) == (
        '"pair" in environment WINDROW__PAIR__LOW is not consistent: low is above high'
    )


def test_secret_is_read_from_where_the_reference_points() -> None:
    layer = file_layer("windrow.toml", {"inner": {"key": {"env": "KEY"}}})
    resolved = resolve(Outer, [layer], lambda kind, name: f"{kind} of {name}")
    assert resolved.config.inner.key == Secret("env of KEY")
    assert resolved.origin_of["inner.key"] == "windrow.toml (env KEY)"


def test_stronger_reference_replaces_a_weaker_literal() -> None:
    file = file_layer("windrow.toml", {"inner": {"key": "literal"}})
    environment = environment_layer({"WINDROW__INNER__KEY__FILE": "/run/key"})
    resolved = resolve(Outer, [environment, file], lambda kind, name: f"{kind} of {name}")
    assert resolved.config.inner.key == Secret("file of /run/key")


def test_weaker_reference_is_never_followed() -> None:
    file = file_layer("windrow.toml", {"inner": {"key": {"env": "NOT_SET"}}})
    flags = flag_layer([Setting(("inner", "key"), "literal", "--key")])
    assert resolve(Outer, [flags, file]).config.inner.key == Secret("literal")


def test_reference_that_leads_nowhere_is_a_mistake_of_its_key() -> None:
    def read(kind: str, name: str) -> str:
        raise ValueError("that environment variable is not set")

    layer = file_layer("windrow.toml", {"inner": {"key": {"env": "KEY"}}})
    with pytest.raises(InvalidValue) as caught:
        resolve(Outer, [layer], read)
    assert str(caught.value) == (
        '"inner.key" in windrow.toml is env KEY: that environment variable is not set'
    )


def test_only_a_secret_may_be_a_reference() -> None:
    with pytest.raises(UnknownKey, match=r"inner\.name\.env"):
        resolve(Outer, [file_layer("windrow.toml", {"inner": {"name": {"env": "NAME"}}})])


def test_password_kept_apart_goes_into_the_dsn_of_another_layer() -> None:
    file = file_layer("windrow.toml", {"database": {"dsn": "postgresql://anna@db/shop"}})
    environment = environment_layer({"WINDROW__DATABASE__PASSWORD": "q7"})
    config = resolve(Config, [environment, file]).config
    assert config.database.dsn == Dsn("postgresql://anna:q7@db/shop")


@pytest.mark.parametrize("table", ["outbox", "shop.outbox", "_o$1"])
def test_table_may_name_its_schema(table: str) -> None:
    layer = file_layer("windrow.toml", {"database": {"table": table}})
    assert resolve(Config, [layer]).config.database.table == table


@pytest.mark.parametrize("table", ["", "a.b.c", "x; DROP TABLE y", 'a"b', "1a", "a" * 64, "a\n"])
def test_table_that_is_no_identifier_is_refused(table: str) -> None:
    layer = file_layer("windrow.toml", {"database": {"table": table}})
    with pytest.raises(InvalidValue, match=r"database\.table"):
        resolve(Config, [layer])


PASSWORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=4).map(
    lambda text: f"q7{text}z9"
)


@pytest.mark.proves("secrets-redacted")
@given(
    password=PASSWORDS,
    path=st.sampled_from(
        ["database.dsn", "database.password", "database", "databse.dsn", "database.pasword"]
    ),
    form=st.sampled_from(["{}", "postgresql://a:{}@db/shop", "postgresql://db:{}/x", "host={}"]),
    wrap=st.sampled_from([lambda v: v, lambda v: [v], lambda v: {"x": v}, lambda v: {v: v}]),
)
def test_no_error_path_of_a_secret_shows_it(
    password: str, path: str, form: str, wrap: object
) -> None:
    assert callable(wrap)
    value = wrap(form.format(password))
    flags = flag_layer([Setting(tuple(path.split(".")), value, f"--set {path}")])
    section, _, key = path.partition(".")
    file = file_layer("windrow.toml", {"http": {"port": -1}, section: {key: value}})
    with pytest.raises(ConfigError) as caught:
        resolve(Config, [flags, file])
    assert password not in "".join(traceback.format_exception(caught.value))
