"""A data source as goharvest's driver reads it, written as libpq does. Pure.

Both have the same two forms. But to that driver every option it does not know is a setting of the
session, such as ``search_path``, where libpq refuses it: those become ``options=-c …``.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

_SHARED = frozenset(
    [
        "application_name",
        "client_encoding",
        "connect_timeout",
        "dbname",
        "fallback_application_name",
        "host",
        "krbsrvname",
        "password",
        "port",
        "sslcert",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "sslsni",
        "user",
    ]
)
_ITS_OWN = frozenset({"binary_parameters", "disable_prepared_binary_result"})
"""How that driver talks to the server: of no concern to another."""

_KNOWN = _SHARED | _ITS_OWN | {"options"}

_BLANK, _ESCAPED = re.compile(r"([\\\s])"), r"\\\1"
_OPTION = re.compile(r"\s*([^\s=]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)", re.DOTALL)


def as_libpq(data_source: str) -> str:
    """The same database, user and session settings, for libpq.

    What cannot be read is returned as it is, so that whoever parses it next says what is wrong.
    """
    if re.match(r"postgres(ql)?://", data_source):
        return _address(data_source)
    return _options(data_source)


def _address(text: str) -> str:
    head, question, query = text.partition("?")
    pairs = [pair.partition("=") for pair in query.split("&")] if query else []
    if not question or not all(name and equals for name, equals, _ in pairs):
        return text
    kept = [f"{name}={value}" for name, _, value in pairs if unquote(name) in _SHARED]
    session = _session_options([(unquote(name), unquote(value)) for name, _, value in pairs])
    if session:
        kept.append(f"options={quote(session, safe='')}")
    return f"{head}?{'&'.join(kept)}" if kept else head


def _options(text: str) -> str:
    found, position = [], 0
    while position < len(text.rstrip()):
        option = _OPTION.match(text, position)
        if option is None:
            return text
        found.append((option[1], option[2] or "''"))  # nothing at all would take what follows
        position = option.end()
    kept = [f"{name}={value}" for name, value in found if name in _SHARED]
    session = _session_options([(name, _unquoted(value)) for name, value in found])
    if session:
        escaped = session.replace("\\", "\\\\").replace("'", "\\'")
        kept.append(f"options='{escaped}'")
    return " ".join(kept)


def _session_options(pairs: list[tuple[str, str]]) -> str:
    """As the server's command line, where a blank within a value is escaped."""
    given = [value for name, value in pairs if name == "options"]
    settings = [(name, value) for name, value in pairs if name not in _KNOWN]
    added = [f"-c {name}={_BLANK.sub(_ESCAPED, value)}" for name, value in settings]
    return " ".join([*given, *added])


def _unquoted(value: str) -> str:
    inner = value[1:-1] if value.startswith("'") else value
    return re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)
