"""Signatures by which a receiver knows who sent a request, and that nobody has changed it. Pure.

The scheme is that of Standard Webhooks: ``webhook-signature`` is a list of ``v1,`` and the base64
of an HMAC-SHA256 over ``id.timestamp.body``, one for each secret of the sender. So a secret is
changed without a gap: the sender signs with both, receivers move on, the old one goes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping, Sequence

from windrow.config.http import SECRET_PREFIX, signing_keys
from windrow.config.secrets import Secret
from windrow.relay.targets.http.errors import InvalidSignature

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE = 300.0
"""How many seconds a request may be old, or ahead, before it could be a recording."""
KEY_BYTES = 32


def new_secret() -> str:
    """A fresh secret, as ``relay.http.secret`` and ``verify_signature`` take it."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``."""
    content = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join(f"v1,{_signature(key, content)}" for key in keys)


def verify_signature(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> str:
    """The id of the message, if one who knows the secret has signed it lately.

    Args:
        headers: Of the request; their names in any case.
        body: Its bytes, as they came.
        secret: What the sender has as ``relay.http.secret``; several are tried one by one.
        tolerance: How many seconds the request may be old, or ahead.
        now: Seconds since 1970; by default the machine's own.

    Raises:
        InvalidSignature: It was not, or a header is missing.
        ValueError: A secret is not of its form.
    """
    written = secret if isinstance(secret, str) else " ".join(secret)
    keys = signing_keys(Secret(written))
    given = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]
    if missing:
        raise InvalidSignature(f"it has no {missing[0]}")
    timestamp = _timestamp(given[TIMESTAMP], time.time() if now is None else now, tolerance)
    content = b"%s.%d.%s" % (given[ID].encode(), timestamp, body)
    if not _is_among(given[SIGNATURE], [_signature(key, content) for key in keys]):
        raise InvalidSignature("no signature of it is right")
    return given[ID]


def _signature(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def _timestamp(text: str, now: float, tolerance: float) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidSignature(f"its {TIMESTAMP} is no number of seconds")
    timestamp = int(text)
    if abs(now - timestamp) > tolerance:
        age = now - timestamp
        raise InvalidSignature(f"it was signed {age:.0f} s ago, and {tolerance:g} s are tolerated")
    return timestamp


def _is_among(given: str, right: Sequence[str]) -> bool:
    """Whether one is right. All are compared whole, so that the time taken tells nothing."""
    offered = [part[3:].encode() for part in given.split() if part.startswith("v1,")]
    found = [hmac.compare_digest(ours.encode(), theirs) for ours in right for theirs in offered]
    return any(found)
