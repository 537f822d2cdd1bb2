from __future__ import annotations

import asyncio
import dataclasses
import importlib
import pickle
import sys
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

import windrow
from windrow.clock import Clock, ManualClock, SystemClock
from windrow.errors import ConfigError, MissingExtra, UnknownKey, WindrowError
from windrow.extras import EXTRA_OF, require
from windrow.journal.errors import JournalStatusError
from windrow.journal.labels import LabelSet
from windrow.types import WRITTEN, Duration, format_duration, parse_duration

# --- types -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("35ms", 0.035),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1d", 86400.0),
        ("7us", 7e-6),
        ("7µs", 7e-6),
        ("7μs", 7e-6),
        ("0s", 0.0),
        (" 5s ", 5.0),
    ],
)
def test_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "5 s", "s", "-5s", "1e3s", "5s!", "five s", "5S", "٣s", "1.s", "nan", "infs"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.floats(min_value=0, max_value=1e9, allow_nan=False))
def test_duration_is_written_exactly(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(1, 10**6), st.sampled_from(["us", "ms", "s", "m", "h", "d"]))
def test_duration_that_was_written_is_written_no_longer(count: int, unit: str) -> None:
    text = f"{count}{unit}"
    assert len(format_duration(parse_duration(text))) <= len(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "250ms"),
        (90, "90s"),
        (5400, "90m"),
        (0, "0s"),
        (0.0005, "500us"),
        (1.0000001, "1.0000001s"),
    ],
)
def test_duration_is_written_in_the_unit_that_suits(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


class Waiting(BaseModel):
    wait: Duration = 1.5


def test_duration_is_a_number_in_python_and_text_in_json() -> None:
    assert Waiting(wait=2.5).wait == 2.5
    assert Waiting(wait=2.5).model_dump() == {"wait": 2.5}
    assert Waiting(wait=2.5).model_dump_json() == '{"wait":"2500ms"}'


@pytest.mark.parametrize("bare", [5, 1.5, True])
def test_written_duration_needs_a_unit(bare: float) -> None:
    with pytest.raises(ValidationError, match="has no unit"):
        TypeAdapter(Duration).validate_python(bare, context=WRITTEN)


def test_written_zero_needs_no_unit() -> None:
    assert TypeAdapter(Duration).validate_python(0, context=WRITTEN) == 0.0


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan"), "9" * 400 + "s", None, []])
def test_duration_is_finite_and_not_negative(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Duration).validate_python(value)


# --- clock -------------------------------------------------------------------------------------


def test_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(now=10.0, epoch=1_000.0)
    assert (clock.monotonic(), clock.time()) == (10.0, 1_000.0)
    clock.advance(2.5)
    assert (clock.monotonic(), clock.time()) == (12.5, 1_002.5)


def test_manual_clock_never_goes_back() -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        ManualClock().advance(-1)


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=8), st.floats(5, 100))
def test_sleepers_wake_in_the_order_of_their_moments_and_not_before(
    waits: list[float], step: float
) -> None:
    async def sleep_and_note(clock: ManualClock, wait: float, woken: list[float]) -> None:
        await clock.sleep(wait)
        woken.append(wait)

    async def scenario() -> None:
        clock, woken = ManualClock(now=0.0), list[float]()
        async with asyncio.TaskGroup() as sleepers:
            for wait in waits:
                sleepers.create_task(sleep_and_note(clock, wait, woken))
            while len(woken) < len(waits):
                await asyncio.sleep(0)
                assert woken == sorted(wait for wait in waits if wait <= clock.monotonic())
                clock.advance(step)
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_sleeper_that_was_cancelled_does_not_stop_the_others() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        first, second = (asyncio.ensure_future(clock.sleep(1)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        clock.advance(1)
        await second
        assert first.cancelled()

    asyncio.run(scenario())


def test_sleeping_no_time_only_lets_others_run() -> None:
    asyncio.run(ManualClock().sleep(0))


def test_system_clock_moves_by_itself() -> None:
    clock: Clock = SystemClock()
    began, today = clock.monotonic(), clock.time()
    asyncio.run(clock.sleep(0.001))
    assert clock.monotonic() > began
    assert clock.time() >= today > 1_700_000_000


# --- extras ------------------------------------------------------------------------------------


def test_installed_module_is_returned() -> None:
    assert require("json") is sys.modules["json"]


@pytest.fixture
def _hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any of the optional modules."""
    for known in EXTRA_OF:
        root = known.split(".")[0]
        for loaded in [name for name in sys.modules if name.split(".")[0] == root]:
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [_Blocker(), *sys.meta_path])


class _Blocker:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] in {known.split(".")[0] for known in EXTRA_OF}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("module", sorted(EXTRA_OF))
@pytest.mark.usefixtures("_hidden")
def test_missing_module_names_the_extra_that_brings_it(module: str) -> None:
    with pytest.raises(MissingExtra) as caught:
        require(f"{module}.inner")
    assert str(caught.value) == (
        f"{module!r} is not installed; run: pip install 'windrow[{EXTRA_OF[module]}]'"
    )


def test_module_that_no_extra_brings_stays_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        require("no_such_module")


def test_installed_module_that_is_broken_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told to install what is there, a user would never find the cause."""
    (tmp_path / "asyncpg.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "asyncpg", raising=False)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        require("asyncpg")


# --- errors ------------------------------------------------------------------------------------


def _error_classes() -> list[type[WindrowError]]:
    """Every error of ``windrow.errors`` and of each package's own ``errors``."""
    found = []
    for root in map(Path, windrow.__path__):
        for path in sorted(root.rglob("errors.py")):
            name = ".".join(("windrow", *path.relative_to(root).with_suffix("").parts))
            module = importlib.import_module(name)
            found += [
                member
                for member in vars(module).values()
                if isinstance(member, type) and issubclass(member, WindrowError)
                if member.__module__ == name and member is not JournalStatusError  # one per status
            ]
    return found


def _sample(hint: Any) -> Any:
    """Some value of that type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _sample(arguments[0])
    if origin is tuple:
        return tuple(_sample(argument) for argument in arguments if argument is not ...)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_sample(arguments[0]): _sample(arguments[1])}
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return [_sample(argument) for argument in arguments]
    if hint is ConfigError:
        return UnknownKey("a.b", "windrow.toml", None)
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        given = {f.name: _sample(hints[f.name]) for f in dataclasses.fields(hint)}
        return hint(**given)  # type: ignore[operator]  # is_dataclass is also true of instances
    if hint is LabelSet:
        return LabelSet.of({"a.name": "value"})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    return {str: "some text", int: 7, float: 1.5, bool: True, bytes: b"x"}[hint]


def _hints_of(kind: type[WindrowError]) -> dict[str, Any]:
    """What its constructor takes, be it its own or inherited from another of ours."""
    if kind.__init__ is Exception.__init__:
        return {}
    # A module of errors is imported by those whose types it names: they are looked up here.
    return get_type_hints(kind.__init__, localns={"LabelSet": LabelSet})


@pytest.mark.parametrize("kind", _error_classes(), ids=lambda kind: kind.__name__)
def test_error_survives_pickling(kind: type[WindrowError]) -> None:
    """Out of a Spark worker it comes pickled."""
    hints = _hints_of(kind)
    error = kind(**{name: _sample(hint) for name, hint in hints.items() if name != "return"})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert repr(vars(again)) == repr(vars(error))


@pytest.mark.parametrize("kind", _error_classes(), ids=lambda kind: kind.__name__)
def test_error_ends_the_command_with_one_or_two(kind: type[WindrowError]) -> None:
    assert kind.exit_code in (1, 2)
