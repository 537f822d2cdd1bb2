"""Which URLs can name a fragment store."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import SplitResult, unquote, urlsplit

from windrow.journal.errors import InvalidField


def valid_store(url: str, *, context: str = "Store") -> str:
    """``url`` itself, if it can name a fragment store.

    Raises:
        InvalidField: It is not an absolute URL of a known scheme, lacks or has a host against
            its scheme, does not end its path with a slash, or has a path that climbs.
    """
    parts = split_url(url, context=context)
    if parts.scheme not in _RULES:
        raise InvalidField(
            context, f"unknown scheme {parts.scheme!r}; expected {', '.join(_RULES)} ({url})"
        )
    if not parts.path.endswith("/"):
        raise InvalidField(context, f"path must end in '/' ({url})")
    if any(segment in (".", "..") for segment in unquote(parts.path).split("/")):
        raise InvalidField(context, f"path may not hold '.' or '..' ({url})")
    if reason := _RULES[parts.scheme](parts):
        raise InvalidField(context, f"{reason} ({url})")
    return url


def store_scheme(url: str) -> str:
    """The scheme of a store's URL."""
    return url.partition(":")[0]


def split_url(url: str, *, context: str) -> SplitResult:
    """The parts of an absolute URL.

    Raises:
        InvalidField: It is none.
    """
    # urlsplit drops tabs and line ends without a word: what is checked must be what is used.
    if not url.isprintable() or " " in url:
        raise InvalidField(context, f"not a URL ({url!a})")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidField(context, f"not a URL: {error} ({url})") from error
    if not parts.scheme or not url.startswith(f"{parts.scheme}://"):
        raise InvalidField(context, f"not an absolute URL ({url})")
    return parts


def _needs_host(parts: SplitResult) -> str:
    return "" if parts.netloc else f"a {parts.scheme} store needs a host"


def _needs_account_and_container(parts: SplitResult) -> str:
    named = [segment for segment in parts.path.split("/") if segment]
    if parts.netloc and len(named) >= 2:
        return ""
    return f"a {parts.scheme} store needs a tenant, an account and a container"


def _needs_no_host(parts: SplitResult) -> str:
    return f"a {parts.scheme} store has no host" if parts.netloc else ""


_RULES: dict[str, Callable[[SplitResult], str]] = {
    "s3": _needs_host,
    "gs": _needs_host,
    "azure": _needs_host,
    "azure-ad": _needs_account_and_container,
    "file": _needs_no_host,
}
