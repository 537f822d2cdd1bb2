"""Which names are allowed: of journals, of labels, of everything that becomes part of a key.

Two alphabets: a *token* is made of letters, numbers and ``-_+/.``; a *path* may also hold ``=`` and
``%``. All of them sort after ``#``, which separates the parts of a key in etcd: a name can
therefore never be mistaken for the start of another one's key.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from functools import lru_cache

from windrow.journal.errors import InvalidField

TOKEN_SYMBOLS = frozenset("-_+/.")
PATH_SYMBOLS = TOKEN_SYMBOLS | frozenset("=%")
KEY_SEPARATOR = "#"
META_SEPARATOR = ";"

# Most names are plain, and a pattern reads them many times faster than a loop.
_PLAIN_TOKEN = re.compile(r"[A-Za-z0-9_+/.-]*")
_JOURNAL_LENGTHS = 4, 512
_META_LENGTHS = 1, 512


def valid_token(text: str, low: int, high: int, *, context: str = "") -> str:
    """``text`` itself, if it is ``low`` to ``high`` bytes of the token alphabet."""
    return _valid(text, TOKEN_SYMBOLS, low, high, context)


def valid_path_text(text: str, low: int, high: int, *, context: str = "") -> str:
    """``text`` itself, if it is ``low`` to ``high`` bytes of the path alphabet."""
    return _valid(text, PATH_SYMBOLS, low, high, context)


def valid_path(text: str, low: int, high: int, *, context: str = "") -> str:
    """``text`` itself, if it is moreover a relative path that cannot be written shorter."""
    valid_path_text(text, low, high, context=context)
    if text and posixpath.normpath(text) != text:
        raise InvalidField(context, f"must be a clean path ({text})")
    if text.startswith("/"):
        raise InvalidField(context, f"cannot begin with '/' ({text})")
    if text == ".." or text.startswith("../"):
        raise InvalidField(context, f"cannot leave its root ({text})")
    return text


@lru_cache(maxsize=4096)  # every message names one
def valid_journal(name: str, allow_meta: bool = False, *, context: str = "Journal") -> str:
    """``name`` itself, if it can name a journal.

    Args:
        name: As it came in a request or spec.
        allow_meta: Whether a ``;meta`` suffix may follow, as in read and append requests.
        context: The field to name in the error.

    Raises:
        InvalidField: It cannot.
    """
    journal = name
    if allow_meta:
        journal, separator, meta = name.partition(META_SEPARATOR)
        if separator:
            valid_path(meta, *_META_LENGTHS, context=f"{context}.Meta")
    valid_path(journal, *_JOURNAL_LENGTHS, context=context)
    return name


def split_meta(name: str) -> tuple[str, str]:
    """The journal proper and its meta suffix, which is empty if there is none."""
    journal, _, meta = name.partition(META_SEPARATOR)
    return journal, meta


def _valid(text: str, symbols: frozenset[str], low: int, high: int, context: str) -> str:
    # A lone surrogate cannot be encoded; count it as it would be, the alphabet refuses it below.
    length = len(text.encode("utf-8", "surrogatepass"))
    if not low <= length <= high:
        raise InvalidField(
            context, f"invalid length ({length}; expected {low} <= length <= {high})"
        )
    if _PLAIN_TOKEN.fullmatch(text):
        return text
    if not all(_is_allowed(rune, symbols) for rune in text):
        raise InvalidField(context, f"not a valid token ({_printable(text)})")
    return text


def _is_allowed(rune: str, symbols: frozenset[str]) -> bool:
    if rune.isascii():
        return rune.isalnum() or rune in symbols
    return unicodedata.category(rune)[0] in "LN"


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)
