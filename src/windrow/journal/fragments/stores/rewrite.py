"""The arguments of a store's URL that every kind of store knows, and the paths they lead to."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from windrow.journal.fragments.errors import InvalidStore


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A store's URL, taken apart."""

    url: str
    scheme: str
    host: str
    path: str
    """Ends in a slash."""
    arguments: dict[str, str]

    @classmethod
    def parse(cls, url: str, known: frozenset[str] | None) -> StoreAddress:
        """Take a URL apart; ``known`` are the arguments it may carry beside find and replace.

        None stands for any.

        Raises:
            InvalidStore: It carries others, or one of them twice.
        """
        parts = urlsplit(url)
        arguments = {}
        for name, values in parse_qs(parts.query, keep_blank_values=True).items():
            if known is not None and name not in known | {"find", "replace"}:
                raise InvalidStore(url, f"unknown argument {name!r}")
            if len(values) > 1:
                raise InvalidStore(url, f"argument {name!r} is given {len(values)} times")
            arguments[name] = values[0]
        return cls(url, parts.scheme, parts.netloc, unquote(parts.path), arguments)

    def key(self, path: str) -> str:
        """Where an object of that path is kept: below the store's path, ``find`` replaced once.

        Raises:
            InvalidStore: It would lie outside of the store's path.
        """
        find = self.arguments.get("find", "")
        rewritten = path.replace(find, self.arguments.get("replace", ""), 1) if find else path
        wanted = rewritten.removesuffix("/")
        is_climbing = wanted.startswith(("/", "../")) or wanted == ".."
        is_clean = wanted not in ("", ".") and posixpath.normpath(wanted) == wanted
        if is_climbing or not is_clean or "\0" in wanted:
            raise InvalidStore(self.url, f"path {rewritten!r} leads out of the store")
        return self.path + rewritten
