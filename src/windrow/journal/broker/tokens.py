"""Who may do what: bearer tokens, signed with keys that all brokers and clients share.

A token is a JWT with a bit mask of capabilities (``cap``), a selector of the journals it speaks of
(``sel``) and its times (``iat``, ``exp``). A journal outside the selector looks as if it did not
exist. Without keys nobody is asked.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

from windrow.errors import Failed, UsageError
from windrow.journal.labels import Label, LabelSelector, LabelSet

LEEWAY = 5.0
ALGORITHMS = ("HS256", "HS384")
NO_KEY = b"\0"
"""In the list of keys it stands for "a call without a token may do everything"."""


class Capability(IntFlag):
    """What a token allows, as bits of its ``cap``."""

    LIST = 2
    APPLY = 4
    READ = 8
    APPEND = 16
    REPLICATE = 32


ALL = Capability(sum(Capability))
EVERY_JOURNAL = LabelSelector(LabelSet(()), LabelSet(()))


class InvalidKeys(UsageError):
    """The list of keys cannot be read. Says nothing of what is in it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"--auth-keys: {self.reason}; give base64 keys with commas between them"


class Unauthenticated(Failed):
    """The call carries no token, or one that does not hold."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"not authorized: {self.reason}"


class Forbidden(Failed):
    """The token is good, and does not allow this."""

    def __init__(self, wanted: Capability, granted: Capability) -> None:
        super().__init__(wanted, granted)
        self.wanted, self.granted = wanted, granted

    def __str__(self) -> str:
        allowed = ", ".join(c.name or "" for c in Capability if c in self.granted) or "nothing"
        return f"not authorized: the token lacks {self.wanted.name} (it allows {allowed})"


class NotYours(Failed):
    """The token is good, and does not speak of this journal."""

    def __init__(self, journal: str) -> None:
        super().__init__(journal)
        self.journal = journal

    def __str__(self) -> str:
        return f"not authorized: the token does not speak of journal {self.journal!r}"


@dataclass(frozen=True, slots=True)
class Claims:
    """What a call may do, on which journals, and until when (seconds since the epoch)."""

    capability: Capability
    selector: LabelSelector = EVERY_JOURNAL
    expires: float | None = None

    def allows_journal(self, labels: LabelSet) -> bool:
        """Whether it speaks of a journal of these labels, its name among them."""
        return self.selector.matches(labels)


UNRESTRICTED = Claims(ALL)

current_claims: ContextVar[Claims] = ContextVar("current_claims", default=UNRESTRICTED)
"""Those of the call that the running task serves; a task of the broker's own may do everything."""


class Authority:
    """Checks tokens by any of its keys, and signs with the first."""

    def __init__(self, keys: str, now: Callable[[], float] = time.time) -> None:
        """Take the keys, base64 with commas or blanks between them; none means nobody is asked.

        Raises:
            InvalidKeys: They are not base64, or there is none to sign with.
        """
        decoded = [_decode(key) for key in keys.replace(",", " ").split()]
        self._now = now
        self._keys = tuple(key for key in decoded if key != NO_KEY)
        self.is_open = not decoded
        self._missing_is_fine = self.is_open or NO_KEY in decoded
        if decoded and not self._keys:
            raise InvalidKeys("AA== alone signs nothing")

    def verify(self, metadata: Mapping[str, str], wanted: Capability) -> Claims:
        """What the bearer of this metadata may do.

        Raises:
            Unauthenticated: There is no token, or it is forged, expired or not yet valid.
            Forbidden: It does not allow ``wanted``.
        """
        header = metadata.get("authorization", "")
        if self.is_open or (not header and self._missing_is_fine):
            return UNRESTRICTED
        if not header:
            raise Unauthenticated("a bearer token is needed and missing")
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("not of the form Bearer <token>")
        claims = self._claims(token.strip())
        if wanted not in claims.capability:
            raise Forbidden(wanted, claims.capability)
        return claims

    def sign(
        self, capability: Capability, selector: LabelSelector = EVERY_JOURNAL, ttl: float = 3600.0
    ) -> str:
        """A token for so many seconds; empty if nobody is asked for one."""
        if self.is_open:
            return ""
        import jwt

        now = int(self._now())
        body = {
            "cap": int(capability),
            "sel": _selector_json(selector),
            "iat": now,
            "exp": now + int(ttl),
        }
        return jwt.encode(body, self._keys[0], algorithm="HS256")

    def _claims(self, token: str) -> Claims:
        import jwt

        reason = ""
        for key in self._keys:
            try:
                # The times are checked below, against our own clock.
                options: Any = {"require": ["exp", "iat"], "verify_exp": False, "verify_iat": False}
                body = jwt.decode(token, key, algorithms=list(ALGORITHMS), options=options)
            except jwt.PyJWTError as error:
                reason = str(error)
                continue
            return self._checked(body)
        raise Unauthenticated(f"the token does not hold: {reason}")

    def _checked(self, body: Mapping[str, Any]) -> Claims:
        now = self._now()
        try:
            issued, expires = float(body["iat"]), float(body["exp"])
            capability = Capability(int(body.get("cap", 0)) & int(ALL))
            selector = _selector(body.get("sel") or {})
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise Unauthenticated(f"the token's claims cannot be read: {error}") from error
        if now > expires + LEEWAY:
            raise Unauthenticated(f"the token expired {now - expires:.0f} s ago")
        if issued > now + LEEWAY:
            raise Unauthenticated(f"the token is of {issued - now:.0f} s in the future")
        return Claims(capability, selector, expires)


def _decode(key: str) -> bytes:
    try:
        decoded = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidKeys("a key is not base64") from error
    if not decoded:
        raise InvalidKeys("a key is empty")
    return decoded


def _selector(body: Mapping[str, Any]) -> LabelSelector:
    return LabelSelector(_labels(body.get("include")), _labels(body.get("exclude")))


def _labels(body: Mapping[str, Any] | None) -> LabelSet:
    labels: Iterable[Mapping[str, Any]] = (body or {}).get("labels") or ()
    made = (
        Label(str(one["name"]), str(one.get("value", "")), bool(one.get("prefix", False)))
        for one in labels
    )
    return LabelSet(tuple(sorted(made, key=lambda label: (label.name, label.value))))


def _selector_json(selector: LabelSelector) -> dict[str, Any]:
    return {"include": _labels_json(selector.include), "exclude": _labels_json(selector.exclude)}


def _labels_json(labels: LabelSet) -> dict[str, Any]:
    return {
        "labels": [
            {"name": one.name, "value": one.value, **({"prefix": True} if one.prefix else {})}
            for one in labels.labels
        ]
    }
