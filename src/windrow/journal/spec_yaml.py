"""The text of a tree of journal specs: YAML of the keys that gazctl reads and writes.

Scalars are taken as they are written, never guessed: the label value ``010`` stays three
characters. What is unset is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

import yaml

from windrow.journal.codec import Codec
from windrow.journal.durations import format_go_duration, parse_go_duration
from windrow.journal.errors import InvalidField, field
from windrow.journal.labels import Label, LabelSet
from windrow.journal.spec import Flag, FragmentSpec, JournalSpec, Suspend, SuspendLevel
from windrow.journal.spec_node import Node

Reader = Callable[[object], Any]
EnumT = TypeVar("EnumT", bound=IntEnum)

_NOTHING = ""  # a key whose value is left out
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")


def parse_tree(text: str) -> Node:
    """The tree written in ``text``.

    Raises:
        InvalidField: It is not YAML, or holds a key or value that no tree has.
    """
    try:
        return _node(yaml.load(text, Loader=_PlainLoader))
    except yaml.YAMLError as error:
        raise InvalidField("", f"not YAML: {error}") from error
    except RecursionError as error:  # an alias may hold itself
        raise InvalidField("", "nested without end") from error


def format_tree(tree: Node) -> str:
    """The text of ``tree``."""
    return yaml.safe_dump(_node_document(tree), sort_keys=False, allow_unicode=True)


class _PlainLoader(yaml.SafeLoader):
    """YAML whose plain scalars are text, and whose keys do not repeat."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Resolve merge keys, once the keys written here are known to differ."""
        written = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in written:
            if written.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is written twice", node.start_mark
                )
        super().flatten_mapping(node)


# Of all that a plain scalar could mean, only the merge key is left.
_PlainLoader.yaml_implicit_resolvers = {"<": [("tag:yaml.org,2002:merge", re.compile(r"<<$"))]}


def _node(document: object) -> Node:
    read = _mapping(document, _NODE_KEYS)
    own = {key: read.pop(key) for key in ("revision", "delete", "children") if key in read}
    return Node(JournalSpec(**{"name": "", **read}), **own)


def _mapping(document: object, readers: dict[str, tuple[str, Reader]]) -> dict[str, Any]:
    """The values of a mapping, by the names of the fields they belong to."""
    if document == _NOTHING:
        return {}
    if not isinstance(document, dict):
        raise InvalidField("", f"expected keys and values ({_shown(document)})")
    values = {}
    for key, value in document.items():
        if key not in readers:
            raise InvalidField("", f"unknown key {key!r}; expected one of {', '.join(readers)}")
        attribute, reader = readers[key]
        with field(key):
            values[attribute] = reader(value)
    return values


def _sequence(document: object, reader: Reader) -> tuple[Any, ...]:
    if document == _NOTHING:
        return ()
    if not isinstance(document, list):
        raise InvalidField("", f"expected a list ({_shown(document)})")
    values = []
    for index, item in enumerate(document):
        with field(f"[{index}]"):
            values.append(reader(item))
    return tuple(values)


def _text(document: object) -> str:
    if not isinstance(document, str):
        raise InvalidField("", f"expected text ({_shown(document)})")
    return document


def _number(document: object) -> int:
    text = _text(document)
    if not _WHOLE_NUMBER.fullmatch(text):
        raise InvalidField("", f"expected a whole number ({text})")
    return int(text)


def _truth(document: object) -> bool:
    text = _text(document)
    if text not in ("true", "false"):
        raise InvalidField("", f"expected true or false ({text})")
    return text == "true"


def _seconds(document: object) -> float:
    return parse_go_duration(_text(document))


def _member(kind: type[EnumT]) -> Callable[[object], EnumT]:
    """A reader of one of an enumeration's names, or its number."""

    def read(document: object) -> EnumT:
        text = _text(document)
        for member in kind:
            if text in (member.name, str(member.value)):
                return member
        raise InvalidField("", f"expected one of {', '.join(kind.__members__)} ({text})")

    return read


def _labels(document: object) -> LabelSet:
    return LabelSet.of(_sequence(document, lambda item: Label(**_mapping(item, _LABEL_KEYS))))


def _shown(document: object) -> str:
    text = repr(document)
    return text if len(text) <= 60 else text[:57] + "..."


_LABEL_KEYS: dict[str, tuple[str, Reader]] = {"name": ("name", _text), "value": ("value", _text)}
_FRAGMENT_KEYS: dict[str, tuple[str, Reader]] = {
    "length": ("length", _number),
    "compression_codec": ("codec", _member(Codec)),
    "stores": ("stores", lambda document: _sequence(document, _text)),
    "refresh_interval": ("refresh_interval", _seconds),
    "retention": ("retention", _seconds),
    "flush_interval": ("flush_interval", _seconds),
    "path_postfix_template": ("path_postfix_template", _text),
}
_SUSPEND_KEYS: dict[str, tuple[str, Reader]] = {
    "level": ("level", _member(SuspendLevel)),
    "offset": ("offset", _number),
}
_NODE_KEYS: dict[str, tuple[str, Reader]] = {
    "name": ("name", _text),
    "delete": ("delete", _truth),
    "replication": ("replication", _number),
    "labels": ("labels", _labels),
    "fragment": ("fragment", lambda document: FragmentSpec(**_mapping(document, _FRAGMENT_KEYS))),
    "flags": ("flags", _member(Flag)),
    "max_append_rate": ("max_append_rate", _number),
    "suspend": ("suspend", lambda document: Suspend(**_mapping(document, _SUSPEND_KEYS))),
    "revision": ("revision", _number),
    "children": ("children", lambda document: _sequence(document, _node)),
}


def _node_document(node: Node) -> dict[str, Any]:
    spec = node.spec
    return _set_only(
        name=spec.name,
        delete=node.delete,
        replication=spec.replication,
        labels=[_set_only(name=label.name, value=label.value) for label in spec.labels],
        fragment=_fragment_document(spec.fragment),
        flags=Flag(spec.flags).name if spec.flags else "",
        max_append_rate=spec.max_append_rate,
        suspend=_suspend_document(spec.suspend),
        revision=node.revision,
        children=[_node_document(child) for child in node.children],
    )


def _fragment_document(fragment: FragmentSpec) -> dict[str, Any]:
    return _set_only(
        length=fragment.length,
        compression_codec=fragment.codec.name if fragment.codec else "",
        stores=list(fragment.stores),
        refresh_interval=_written(fragment.refresh_interval),
        retention=_written(fragment.retention),
        flush_interval=_written(fragment.flush_interval),
        path_postfix_template=fragment.path_postfix_template,
    )


def _suspend_document(suspend: Suspend) -> dict[str, Any]:
    level = suspend.level.name if suspend.level else ""
    return _set_only(level=level, offset=suspend.offset)


def _written(seconds: float) -> str:
    return format_go_duration(seconds) if seconds else ""


def _set_only(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
