from __future__ import annotations

import io
import json
import logging
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.errors import InvalidValue
from windrow.telemetry import Metrics, get_logger
from windrow.telemetry.logs import Format, configure

log = get_logger("windrow.test")
foreign = logging.getLogger("someone.else")


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def written(write: Callable[[], object], format: Format = "json") -> str:
    stream = io.StringIO()
    configure("debug", format, stream)
    write()
    return stream.getvalue()


def test_an_event_of_ours_is_keys_and_values() -> None:
    line = json.loads(written(lambda: log.info("leader acquired", epoch=7)))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("timestamp"))
    assert line == {
        "event": "leader acquired",
        "epoch": 7,
        "level": "info",
        "logger": "windrow.test",
    }


def test_an_event_of_the_standard_library_looks_the_same() -> None:
    line = json.loads(written(lambda: foreign.warning("%d lost", 3, extra={"topic": "orders"})))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("timestamp"))
    assert line == {
        "event": "3 lost",
        "topic": "orders",
        "level": "warning",
        "logger": "someone.else",
    }


def test_an_event_of_a_plain_structlog_logger_goes_the_same_way() -> None:
    def write() -> None:
        structlog.get_logger("user.code").info("done", password="hunter2")

    line = json.loads(written(write))
    assert (line["event"], line["password"], line["logger"]) == ("done", "***", "user.code")


def test_the_console_shows_the_same_for_people() -> None:
    line = written(lambda: log.info("leader acquired", epoch=7), "console")
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z \[info *\] leader acquired", line)
    assert "epoch=7" in line
    assert "windrow.test" in line
    assert "\x1b" not in line  # not a terminal, so no colours


def test_bound_values_and_those_of_the_context_are_shown() -> None:
    def write() -> None:
        with structlog.contextvars.bound_contextvars(graph="orders"):
            log.bind(processor="enrich").info("batch delivered")

    line = json.loads(written(write))
    assert (line["graph"], line["processor"]) == ("orders", "enrich")


def test_an_exception_is_shown_with_its_traceback() -> None:
    def write() -> None:
        try:
            int("x")
        except ValueError:
            log.exception("failed")
            foreign.exception("failed")

    for line in map(json.loads, written(write).splitlines()):
        assert (line["level"], line["event"]) == ("error", "failed")
        assert line["exception"].startswith("Traceback")
        assert "invalid literal for int()" in line["exception"]


def test_events_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    configure("warning", "json", stream)
    log.info("a")
    foreign.info("b")
    log.warning("c")
    assert [line["event"] for line in lines(stream)] == ["c"]


def test_a_second_configuration_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("info", "json", first)
    log.info("a")
    configure("info", "json", second)
    log.info("b")
    assert [line["event"] for line in lines(first)] == ["a"]
    assert [line["event"] for line in lines(second)] == ["b"]


def test_fields_named_as_attributes_of_a_record_are_allowed() -> None:
    """The standard library refuses ``extra={"name": …}``; our events must not care."""
    line = json.loads(written(lambda: log.info("x", name="a", module="b", args=1, message="c")))
    assert (line["name"], line["module"], line["args"], line["message"]) == ("a", "b", 1, "c")


def test_events_are_counted_by_level() -> None:
    metrics = Metrics()
    configure("info", "json", io.StringIO(), metrics)
    log.debug("not written, not counted")
    log.info("a")
    foreign.error("b")
    foreign.log(35, "between warning and error")
    exposed = metrics.exposition().decode()
    counted = re.findall(r'windrow_log_events_total\{level="(\w+)"\} ([\d.]+)', exposed)
    assert sorted(counted) == [("error", "1.0"), ("info", "1.0"), ("warning", "1.0")]


@pytest.mark.parametrize(
    ("level", "format", "message"),
    [
        ("loud", "json", "\"log.level\" in logs.configure() is 'loud': one of debug, info"),
        ("info", "xml", "\"log.format\" in logs.configure() is 'xml': one of console, json"),
    ],
)
def test_an_unknown_level_or_format_is_refused(level: Any, format: Any, message: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        configure(level, format)
    assert message in str(refusal.value)


def test_an_event_that_cannot_be_written_is_named_without_its_content(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    stream.close()
    foreign.info("password=%s", "hunter2")
    error = capsys.readouterr().err
    assert error == "windrow: lost a log event of someone.else: ValueError\n"


def test_in_a_host_application_events_go_the_way_of_its_own_logging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody called ``configure``: no line on stdout, no structure forced on the host."""
    with caplog.at_level(logging.INFO):
        try:
            raise ValueError("postgresql://me:hunter2@db/")
        except ValueError:
            log.exception("cannot connect", attempt=2, token="hunter2")
    message = caplog.records[0].getMessage()
    assert message.startswith("cannot connect attempt=2 token='***'\nTraceback")
    assert "postgresql://me:***@db/" in message
    assert "hunter2" not in caplog.text


def test_a_logger_travels_to_another_process() -> None:
    clone = pickle.loads(pickle.dumps(log))
    assert json.loads(written(lambda: clone.info("x")))["logger"] == "windrow.test"


SECRETS = st.from_regex(r"hunter[A-Za-z0-9]{6,20}", fullmatch=True)
TEXT_WITH_SECRET = st.sampled_from(
    [
        "cannot reach postgresql://me:{}@db:5432/orders",
        "amqp://me:{}@broker",
        "password={}",
        "host=db password='{}' dbname=x",
        "{{'sasl.password': '{}'}}",
        '{{"client_secret": "{}"}}',
        "Authorization: Basic {}",
        "authorization=Bearer {}",
        "ran tool --token {} -v",
    ]
)
SECRET_NAMES = st.sampled_from(["password", "db_password", "token", "dsn", "Authorization", "sasl"])
PAYLOAD_NAMES = st.sampled_from(["value", "record_value", "payload", "headers", "body"])
OTHER_NAMES = st.sampled_from(["topic", "target", "reason", "a"])


def holding(secret: str) -> st.SearchStrategy[Any]:
    """Values with the secret somewhere in them, where its place or the field's name tells."""
    text = TEXT_WITH_SECRET.map(lambda template: template.format(secret))
    anything = (
        st.just(secret) | st.just(secret.encode()) | st.just([secret]) | st.just({"a": secret})
    )
    told = st.dictionaries(SECRET_NAMES | PAYLOAD_NAMES, anything, min_size=1)
    pair = st.tuples(SECRET_NAMES, anything)
    exception = text.map(ValueError)
    return st.recursive(
        text | told | pair | exception | st.just(secret.encode()),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(OTHER_NAMES, inner, max_size=3)
            | st.dictionaries(text, inner, max_size=2)
        ),
        max_leaves=8,
    )


def log_everywhere(text: str, value: object) -> None:
    """One event on each of the ways by which something may get into a line."""
    log.info(text, reason=value, nested={"deep": [value]})
    log.info("said %s", text)
    foreign.info("said %s", text, extra={"reason": value})
    structlog.get_logger().info(text, reason=value)
    try:
        try:
            raise KeyError(text)
        except KeyError as cause:
            error = RuntimeError(text)
            error.add_note(text)
            raise error from cause
    except RuntimeError as raised:
        log.exception(text, stack_info=True)
        log.error("failed", exc_info=raised, error=raised)
        foreign.exception("failed")
        foreign.error("failed: %s", raised, stack_info=True)


@pytest.mark.proves("secrets-redacted")
@settings(deadline=None)
@given(data=st.data(), secret=SECRETS, format=st.sampled_from(["console", "json"]))
def test_no_secret_is_in_any_line(data: st.DataObject, secret: str, format: Format) -> None:
    value = data.draw(holding(secret))
    text = data.draw(TEXT_WITH_SECRET).format(secret)
    output = written(lambda: log_everywhere(text, value), format)
    assert secret not in output
    assert output.count("windrow.test") >= 4
    assert output.count("someone.else") >= 3


def test_a_text_without_end_is_written_without_delay() -> None:
    """Redaction looks at every text, so its time must not grow with the square of the length."""
    program = (
        "import sys; from windrow.telemetry import get_logger, logs;"
        "logs.configure('info', 'json', sys.stdout);"
        "get_logger('x').info('a' * 10_000_000 + ' read')"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True
    )
    assert json.loads(finished.stdout)["event"] == "<10000000 bytes> read"
