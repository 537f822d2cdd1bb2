"""By what is a request known to be a repeat? Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

KEY_HEADERS = ("idempotency-key", "webhook-id", "ce-id")
"""The first that a request has is its key."""
LONGEST_KEY = 512


class UnusableKey(ValueError):
    """A key that nothing can be remembered by."""


def request_key(
    method: str,
    path: str,
    headers: Iterable[tuple[bytes, bytes]],
    names: Sequence[str] = KEY_HEADERS,
    caller: str = "",
) -> str | None:
    """What the answer is remembered by; None if the request has no such header.

    The path belongs to it: one message may be sent to several. The id of a CloudEvent is that of
    its source alone, which belongs to it likewise.

    Raises:
        UnusableKey: It is empty, or longer than 512 characters.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1").strip())
    chosen = next((name for name in names if name in found), None)
    if chosen is None:
        return None
    key = found[chosen]
    if not key or len(key) > LONGEST_KEY or "\x00" in key:
        raise UnusableKey(f"{chosen} has to have 1 to {LONGEST_KEY} characters")
    source = found.get("ce-source", "") if chosen == "ce-id" else ""
    whole = "\n".join(part for part in (caller, f"{method} {path}", source, key) if part)
    if len(whole) <= LONGEST_KEY:
        return whole
    # More would not fit into every index, and a path may be of any length.
    return f"sha256 {hashlib.sha256(whole.encode()).hexdigest()}"
