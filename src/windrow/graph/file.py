"""How does a graph come from a file, TOML or YAML, and go into one?

A file names its functions ``module:function``; everything else is spelled as in Python. A graph
written down and read again is the same graph, if its functions can be imported by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from windrow.config.files import read_file
from windrow.errors import ConfigError, InvalidValue
from windrow.graph.declaration import Graph
from windrow.graph.document import (
    ProcessorDocument,
    QueueDocument,
    RetryDocument,
    checked,
    one_of,
)
from windrow.graph.errors import UnknownFunction
from windrow.graph.outline import Outline
from windrow.graph.policies import Retry
from windrow.graph.processors import Processor, Source, declare
from windrow.graph.queues import Queue
from windrow.graph.references import Function, importable_reference_of, load_function
from windrow.graph.toml_text import toml_text
from windrow.types import format_duration

_ROLES = ("reads", "alts", "writes", "tailers", "appenders")
_PLAIN = ("uid", "errors", "on_error", "strategy", "form", "state", "many", "deterministic")
_DEFAULTS = Processor(id="", function=print)


def load_graph(path: Path) -> Graph:
    """The graph of a file.

    Raises:
        ConfigError: The file cannot be read, or holds an unknown key or an invalid value.
        InvalidGraph: What it declares cannot run.
    """
    return graph_of(read_file(path), str(path))


def graph_of(content: Mapping[Any, Any], origin: str) -> Graph:
    """The graph of a document; ``origin`` is how errors name it.

    Raises:
        ConfigError: It holds an unknown key, an invalid value or a function that is not there.
        InvalidGraph: What it declares cannot run.
    """
    document = checked(content, origin)
    mistakes: list[ConfigError] = []
    processors = [
        _processor(name, part, origin, mistakes) for name, part in document.processors.items()
    ]
    if mistakes:
        raise one_of(mistakes)
    return Graph(
        document.id,
        [*map(Source, document.sources), *processors],
        queues=[_queue(name, part) for name, part in document.queues.items()],
        source=document.source,
        errors=document.errors,
        on_error=document.on_error,
        strategy=document.strategy,
        system=document.system,
        retry=_retry(document.retry),
        queue_meta=document.queue_meta,  # type: ignore[arg-type]  # a list becomes a tuple
    )


def document_of(graph: Outline) -> dict[str, Any]:
    """The graph as plain data, what is left at its default left out.

    Raises:
        UnnamedFunction: A function cannot be imported by its name.
    """
    document = {
        "id": graph.id,
        "sources": [source.id for source in graph.sources],
        "source": graph.source,
        "errors": graph.errors,
        "on_error": graph.on_error,
        "strategy": graph.strategy if graph.strategy != "exactly-once" else None,
        "queue_meta": _listed_meta(graph.queue_meta),
        "retry": _retry_table(graph.retry) if graph.retry != Retry() else None,
        "system": dict(graph.system),
        "queues": {queue.name: _queue_table(queue) for queue in graph.queues},
        "processors": {part.id: _processor_table(part) for part in graph.working},
    }
    return _set_only(document)


def to_toml(graph: Outline) -> str:
    """The graph as the text of a TOML file."""
    return toml_text(document_of(graph), frozenset({"queues", "processors"}))


def to_yaml(graph: Outline) -> str:
    """The graph as the text of a YAML file."""
    document = document_of(graph)
    toml_text(document)  # refuses what is not plain, with its key, which YAML's writer does not say
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _processor(
    name: str, part: ProcessorDocument, origin: str, mistakes: list[ConfigError]
) -> Processor:
    def loaded(setting: str, reference: str) -> Function:
        try:
            return load_function(reference)
        except UnknownFunction as error:
            key = f"processors.{name}.{setting}"
            mistakes.append(InvalidValue(key, f'"{reference}"', origin, error.reason))
            return print  # stands in until all mistakes are found

    given: dict[str, Any] = {role: getattr(part, role) for role in _ROLES}
    given |= {setting: getattr(part, setting) for setting in (*_PLAIN, "types", "topics")}
    given |= {"version": part.version, "options": part.options}
    if part.where is not None:
        given["where"] = loaded("where", part.where)
    if part.retry is not None:
        given["retry"] = _retry(part.retry)
    return declare(loaded("function", part.function), id=name, **given)


def _queue(name: str, part: QueueDocument) -> Queue:
    return Queue(name=name, **part.model_dump())


def _retry(part: RetryDocument) -> Retry:
    return Retry(part.attempts, part.backoff, part.max_backoff)


def _processor_table(processor: Processor) -> dict[str, Any]:
    where = processor.filter.where
    table = {
        "function": importable_reference_of(processor.function),
        **{role: _bindings(getattr(processor, role)) for role in _ROLES},
        "types": _sorted(processor.filter.types),
        "topics": _sorted(processor.filter.topics),
        "where": importable_reference_of(where) if where else None,
        "retry": _retry_table(processor.retry) if processor.retry else None,
        "options": dict(processor.options),
    }
    for setting in (*_PLAIN, "version"):
        value = getattr(processor, setting)
        table[setting] = value if value != getattr(_DEFAULTS, setting) else None
    # A filter that lets nothing pass is not the same as none.
    kept = {key: table[key] for key in ("types", "topics") if table[key] is not None}
    return _set_only(table) | kept


def _queue_table(queue: Queue) -> dict[str, Any]:
    table: dict[str, Any] = {
        **{str(backend): address for backend, address in queue.places.items()},
        "partitions": queue.partitions,
        "values": queue.values if queue.values != "json" else None,
        "meta": _listed_meta(queue.meta),
        "options": dict(queue.options),
    }
    return _set_only(table)


def _retry_table(retry: Retry) -> dict[str, Any]:
    return {
        "attempts": "unlimited" if retry.attempts is None else retry.attempts,
        "backoff": format_duration(retry.backoff),
        "max_backoff": format_duration(retry.max_backoff),
    }


def _bindings(bound: Mapping[str, str]) -> str | list[str] | dict[str, str] | None:
    if any(name != queue for name, queue in bound.items()):
        return dict(bound)
    return list(bound) if len(bound) != 1 else next(iter(bound))


def _listed_meta(option: Any) -> Any:
    return list(option) if isinstance(option, tuple) else option


def _sorted(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _set_only(table: Mapping[str, Any]) -> dict[str, Any]:
    unset: tuple[Any, ...] = (None, [], {}, False, ())
    return {key: value for key, value in table.items() if value not in unset}
