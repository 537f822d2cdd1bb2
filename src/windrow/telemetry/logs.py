"""Log events as keys and values, from our own loggers and from everybody else's.

Our loggers scrub an event before it leaves them, so what a host application's own handlers get is
clean too. A process of ours calls ``configure`` once, which renders all events of the process,
those of the standard library's loggers included, to one stream.
"""

from __future__ import annotations

import functools
import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast, get_args

from windrow.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from structlog.stdlib import BoundLogger
    from structlog.typing import Processor

    from windrow.telemetry.metrics import Metrics

Level = Literal["debug", "info", "warning", "error", "critical"]
Format = Literal["console", "json"]

_META = ("_record", "_from_structlog")
# The last ones are there once any other handler has formatted the record.
_OF_EVERY_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime"}


def get_logger(name: str) -> BoundLogger:
    """The logger of that name, ready to say ``log.info("leader lost", epoch=7)``.

    Costs nothing until it is used. Where its events go is for the application to say, by
    ``configure`` or in its own way.
    """
    return cast("BoundLogger", _LazyLogger(name))


def configure(
    level: Level = "info",
    format: Format = "console",
    stream: TextIO | None = None,
    metrics: Metrics | None = None,
) -> None:
    """Write every log event of this process at or above ``level`` to ``stream`` (stderr).

    Calling it again replaces the earlier configuration.

    Raises:
        InvalidValue: There is no such level or format.
    """
    import structlog

    _check("log.level", level, get_args(Level))
    _check("log.format", format, get_args(Format))
    structlog.configure(
        processors=_chain(),
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,  # or loggers made before would keep what they had
    )
    out = sys.stderr if stream is None else stream
    handler = _Handler(out, metrics)
    handler.setFormatter(_formatter(format, colors=out.isatty()))
    root = logging.getLogger()
    for earlier in [h for h in root.handlers if isinstance(h, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level.upper())


def _check(option: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidValue(option, repr(given), "logs.configure()", f"one of {', '.join(known)}")


class _LazyLogger:
    """Imports structlog when the first event is logged."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(_bound_logger(self._name), attribute)

    def __reduce__(self) -> tuple[type[_LazyLogger], tuple[str]]:
        # A function of the user's travels to a Spark worker together with the logger it uses.
        return _LazyLogger, (self._name,)


@functools.cache
def _bound_logger(name: str) -> BoundLogger:
    import structlog

    wrapped = structlog.wrap_logger(
        logging.getLogger(name),
        processors=_chain(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return cast("BoundLogger", wrapped.bind())


@functools.cache
def _chain() -> list[Processor]:
    """What happens to our own events before the standard library's logging gets them."""
    import structlog

    return [
        structlog.stdlib.filter_by_level,
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _scrub,
        _to_stdlib,
    ]


def _formatter(format: Format, *, colors: bool) -> logging.Formatter:
    import structlog

    renderer: Processor = structlog.processors.JSONRenderer()
    if format == "console":
        renderer = structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    return structlog.stdlib.ProcessorFormatter(
        # Events of other people's loggers come here as they are.
        foreign_pre_chain=[
            _add_extras,
            structlog.processors.format_exc_info,
            _scrub,
        ],
        processors=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            renderer,
        ],
    )


def _add_extras(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for name, value in vars(event["_record"]).items():
        if name not in _OF_EVERY_RECORD:
            event.setdefault(name, value)
    return event


def _scrub(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    from windrow.telemetry.scrubbing import scrub  # brings the whole of config with it

    meta = {name: event.pop(name) for name in _META if name in event}
    return scrub(event) | meta


def _to_stdlib(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
    from structlog.stdlib import ProcessorFormatter

    args, kwargs = ProcessorFormatter.wrap_for_formatter(logger, method, _Line(event))
    # The error is in the event already, scrubbed; logging.exception() would add it as it is.
    return args, {**kwargs, "exc_info": None}


class _Line(dict[str, Any]):
    """An event that reads well where a host application's formatter takes it for a message."""

    def __str__(self) -> str:
        fields = [f"{k}={v!r}" for k, v in self.items() if k not in ("event", "exception")]
        line = " ".join([str(self.get("event", "")), *fields])
        return f"{line}\n{self['exception']}" if "exception" in self else line


class _Handler(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO, metrics: Metrics | None) -> None:
        super().__init__(stream)
        self._metrics = metrics

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self._metrics is not None:
            self._metrics.counter("log_events_total", level=_level_of(record)).inc()

    def handleError(self, record: logging.LogRecord) -> None:
        # Not the library's way, which prints the message and its arguments as they are.
        with suppress(OSError, ValueError):
            reason = type(sys.exc_info()[1]).__name__
            sys.stderr.write(f"windrow: lost a log event of {record.name}: {reason}\n")


def _level_of(record: logging.LogRecord) -> Level:
    """One of our five: levels that others invent must not make up labels."""
    for level in ("critical", "error", "warning", "info"):
        if record.levelno >= getattr(logging, level.upper()):
            return level
    return "debug"
