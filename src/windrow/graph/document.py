"""What may a file say about a graph, and what is wrong with what it says?

The keys are those of the declaration; the form follows the rest of the configuration: an unknown
key is told with the nearest known one, a duration has its unit, and all mistakes are told at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from windrow.config import Section, SeveralMistakes, redact
from windrow.errors import ConfigError, InvalidValue, UnknownKey
from windrow.graph.policies import OnError, Strategy
from windrow.graph.processors import Form, State
from windrow.graph.queues import MetaField, Values
from windrow.types import WRITTEN, Duration

_LONGEST_SHOWN = 60


def _queues(value: Any) -> Any:
    """Names of queues in any of their three forms."""
    names = [value] if isinstance(value, str) else value
    texts = [*names.values()] if isinstance(names, Mapping) else names
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("give the name of a queue, a list of names, or a table of names to queues")
    return value


def _texts(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("give a text or a list of texts")
    return names


def _meta(value: Any) -> Any:
    return value if value == "strip" else _texts(value)


def _attempts(value: Any) -> Any:
    return None if value == "unlimited" else value


Count = Annotated[int, Field(ge=1)]
Queues = Annotated[Any, BeforeValidator(_queues)]
Texts = Annotated[list[str] | None, BeforeValidator(_texts)]
Meta = Annotated[list[MetaField] | Literal["strip"] | None, BeforeValidator(_meta)]


class RetryDocument(Section):
    """How often to try; ``unlimited`` is for ever."""

    attempts: Annotated[Count | None, BeforeValidator(_attempts)] = 5
    backoff: Duration = 1.0
    max_backoff: Duration = 60.0


class QueueDocument(Section):
    """Where a queue lives; its name is the key of its table."""

    journal: str | None = None
    kafka: str | None = None
    postgres: str | None = None
    http: str | None = None
    outbox: str | None = None
    spark: str | None = None
    partitions: Count | None = None
    values: Values = "json"
    meta: Meta = None
    options: dict[str, Any] = Field(default_factory=dict)


class ProcessorDocument(Section):
    """A processor; its id is the key of its table, its function is named ``module:function``."""

    function: str
    uid: str | None = None
    reads: Queues = ()
    alts: Queues = ()
    writes: Queues = ()
    tailers: Queues = ()
    appenders: Queues = ()
    types: Texts = None
    topics: Texts = None
    where: str | None = None
    errors: str | None = None
    on_error: OnError | None = None
    strategy: Strategy | None = None
    form: Form = "message"
    state: State | None = None
    many: bool = False
    deterministic: bool = False
    version: str = "1"
    retry: RetryDocument | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class GraphDocument(Section):
    """A whole graph."""

    id: str
    sources: list[str] = Field(default_factory=list)
    source: str | None = None
    errors: str | None = None
    on_error: OnError | None = None
    strategy: Strategy = "exactly-once"
    queue_meta: Meta = None
    retry: RetryDocument = RetryDocument()
    system: dict[str, Any] = Field(default_factory=dict)
    queues: dict[str, QueueDocument] = Field(default_factory=dict)
    processors: dict[str, ProcessorDocument] = Field(default_factory=dict)


def checked(content: Mapping[Any, Any], origin: str) -> GraphDocument:
    """The content of a file, if it is of the form of a graph.

    Raises:
        ConfigError: It is not; of several mistakes all are told.
    """
    try:
        return GraphDocument.model_validate(content, context=WRITTEN)
    except ValidationError as error:
        # Only the parts are kept: the error itself holds every value it saw.
        details = error.errors(include_url=False, include_context=False, include_input=False)
    raise one_of(list(_mistakes(details, content, origin)))


def one_of(mistakes: list[ConfigError]) -> ConfigError:
    """The error to raise for so many mistakes."""
    return mistakes[0] if len(mistakes) == 1 else SeveralMistakes(tuple(mistakes))


def _mistakes(
    details: list[ErrorDetails], content: Mapping[Any, Any], origin: str
) -> Iterator[ConfigError]:
    seen: set[str] = set()
    for detail in details:
        path, value = _found(detail["loc"], content)
        key = ".".join(path)
        if key in seen:  # a value that may have several forms is wrong in each of them
            continue
        seen.add(key)
        if detail["type"] == "extra_forbidden":
            yield UnknownKey(key, origin, _nearest(path))
        elif detail["type"] == "missing":
            yield InvalidValue(".".join(map(str, detail["loc"])), "missing", origin, "it is needed")
        else:
            reason = detail["msg"].removeprefix("Value error, ")
            yield InvalidValue(key, _shown(value), origin, reason[:1].lower() + reason[1:])


def _found(location: tuple[int | str, ...], content: Any) -> tuple[list[str], Any]:
    """The way to a mistake as far as the file goes; pydantic's goes on into its own types."""
    path: list[str] = []
    for part in location:
        is_there = part in content if isinstance(content, Mapping) else isinstance(content, list)
        if not is_there or (isinstance(content, list) and not isinstance(part, int)):
            break
        content = content[part]
        path.append(str(part))
    return path, content


def _nearest(path: list[str]) -> str | None:
    """The known key most like an unknown one, in the same section."""
    section: type[BaseModel] | None = GraphDocument
    above = list(path[:-1])
    while above and section is not None:
        info = section.model_fields.get(above.pop(0))
        section, is_table = _section_in(info.annotation) if info else (None, False)
        if is_table and above:
            above.pop(0)  # the name of the queue or processor
    if section is None:
        return None
    near = get_close_matches(path[-1], list(section.model_fields), n=1)
    return ".".join([*path[:-1], near[0]]) if near else None


def _section_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part, get_origin(annotation) is dict
    return None, False


def _shown(value: Any) -> str:
    text = redact(json.dumps(value, default=str, ensure_ascii=False))
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
