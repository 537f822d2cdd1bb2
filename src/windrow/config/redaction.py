"""Hide secrets in text that others wrote: log lines, driver errors, tracebacks.

Our own messages are built from values that hide themselves (``Secret``, ``Dsn``). This is the net
below them, for text whose origin is unknown, so it prefers to hide too much. It needs nothing but
``re``.
"""

from __future__ import annotations

import re

HIDDEN = "***"

# A name begins where a word does, is looked at once and taken whole: with any other way to match
# it, a long word would take for ever.
_NAME = (
    r"(?<![\w.\-])(?=[\w.\-]*?(?:pass(?:word|wd|phrase)|secret|credential"
    r"|(?:api|access|private)[_.\-]?key|token(?![\w.\-])))[\w.\-]++"
)
# A quote that never closes runs to the end of the line: a truncated message still holds a secret.
# What touches a closing quote is part of the value, as in a shell.
_QUOTED = r"(?:'(?:[^'\\\n]|\\.|'')*(?:'|$)|\"(?:[^\"\\\n]|\\.)*(?:\"|$))[^\s,;)\]}]*"

_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_USERINFO = re.compile(r"(?<![a-zA-Z0-9+.\-])([a-zA-Z][a-zA-Z0-9+.\-]*://)(\S{0,2000})@")
_HEADER = re.compile(
    r"((?:authorization|cookie|x-api-key)[\"']?[ \t]*[:=][ \t]*)(?:" + _QUOTED + r"|[^\r\n]+)",
    re.IGNORECASE | re.MULTILINE,
)
_BEARER = re.compile(r"(\bbearer[ \t]+)[\w.~+/=\-]{8,}", re.IGNORECASE)
_NAMED = re.compile(
    r"(" + _NAME + r"[\"']?[ \t]*[:=][ \t]*)(?:" + _QUOTED + r"|\S+)", re.IGNORECASE | re.MULTILINE
)
_OPTION = re.compile(
    r"((?<!\S)(?=--)" + _NAME + r"[ \t]+)(?:" + _QUOTED + r"|\S+)", re.IGNORECASE | re.MULTILINE
)


def redact(text: str) -> str:
    """The same text with what looks like a secret replaced by ``***``.

    Knows the password in a URI (up to its last ``@``), named values such as ``password=…``,
    ``"sasl.password": "…"`` and ``--token …``, authorization and cookie headers, bearer tokens and
    private keys. A secret that is neither named nor in such a place cannot be known.
    """
    text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}\2", text)
    text = _HEADER.sub(rf"\1{HIDDEN}", text)
    text = _NAMED.sub(rf"\1{HIDDEN}", text)
    text = _OPTION.sub(rf"\1{HIDDEN}", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    return _USERINFO.sub(_hide_userinfo, text)


def _hide_userinfo(match: re.Match[str]) -> str:
    scheme, userinfo = match.groups()
    user, colon, _ = userinfo.partition(":")
    if not colon:
        # A bare name is the user of a database, but may be a token of a web service.
        is_token = scheme.lower().startswith("http") and "/" not in userinfo
        return f"{scheme}{HIDDEN}@" if is_token else match.group()
    shown = user if not re.search(r"[/?#]", user) else HIDDEN
    return f"{scheme}{shown}:{HIDDEN}@"
