"""Bearer tokens: what they allow, on which journals, and until when."""

from __future__ import annotations

import base64
import time
from typing import Any

import jwt
import pytest

from windrow.journal.broker.tokens import (
    ALL,
    UNRESTRICTED,
    Authority,
    Capability,
    Forbidden,
    InvalidKeys,
    Unauthenticated,
)
from windrow.journal.labels import EMPTY, Label, LabelSelector, LabelSet

NOW = 1_700_000_000.0
SECRET = b"0123456789abcdef0123456789abcdef0123456789abcdef"
OTHER = b"another-key-of-enough-bytes-for-any-hmac-of-ours"
KEY, OTHER_KEY = base64.b64encode(SECRET).decode(), base64.b64encode(OTHER).decode()


def authority(keys: str = KEY, now: float = NOW) -> Authority:
    return Authority(keys, now=lambda: now)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def token(secret: bytes = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    body = {"cap": int(ALL), "iat": NOW, "exp": NOW + 60, **claims}
    return jwt.encode(
        {name: value for name, value in body.items() if value is not None}, secret, algorithm
    )


def test_what_is_signed_is_verified_with_its_capability_and_selector() -> None:
    mine = LabelSelector(LabelSet((Label("name", "a/", prefix=True),)), EMPTY)
    signed = authority().sign(Capability.READ | Capability.LIST, mine, ttl=60)
    claims = authority().verify(bearer(signed), Capability.READ)
    assert claims.capability == Capability.READ | Capability.LIST
    assert claims.selector == mine
    assert claims.expires == NOW + 60
    assert claims.allows_journal(LabelSet((Label("name", "a/journal"),)))
    assert not claims.allows_journal(LabelSet((Label("name", "b/journal"),)))


@pytest.mark.parametrize("wanted", list(Capability))
def test_a_token_allows_its_own_capability_and_no_other(wanted: Capability) -> None:
    only = bearer(token(cap=int(wanted)))
    assert authority().verify(only, wanted).capability == wanted
    for other in set(Capability) - {wanted}:
        with pytest.raises(Forbidden, match=rf"lacks {other.name} \(it allows {wanted.name}\)"):
            authority().verify(only, other)


def test_without_keys_nobody_is_asked() -> None:
    assert Authority("").verify({}, Capability.APPEND) is UNRESTRICTED
    assert Authority("").sign(Capability.REPLICATE) == ""


def test_with_keys_a_missing_token_is_refused_unless_the_empty_key_is_among_them() -> None:
    with pytest.raises(Unauthenticated, match="needed and missing"):
        authority().verify({}, Capability.READ)
    lenient = authority(f"{KEY},AA==")
    assert lenient.verify({}, Capability.READ) is UNRESTRICTED
    with pytest.raises(Unauthenticated):  # a bad token is worse than none
        lenient.verify(bearer("x.y.z"), Capability.READ)


def test_the_first_key_signs_and_every_key_verifies() -> None:
    rotated = authority(f"{OTHER_KEY} {KEY}")
    assert rotated.verify(bearer(token()), Capability.READ)
    signed = rotated.sign(Capability.READ)
    assert authority(OTHER_KEY).verify(bearer(signed), Capability.READ)
    with pytest.raises(Unauthenticated):
        authority().verify(bearer(signed), Capability.READ)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 6}, "expired 6 s ago"),
        ({"iat": NOW + 6}, "6 s in the future"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"cap": "all"}, "cannot be read"),
        ({"sel": ["name"]}, "cannot be read"),
        ({"sel": {"include": {"labels": [{}]}}}, "cannot be read"),
    ],
    ids=["expired", "early", "no-exp", "no-iat", "bad-cap", "bad-sel", "bad-label"],
)
def test_a_token_out_of_its_time_or_form_is_refused(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unauthenticated, match=reason):
        authority().verify(bearer(token(**claims)), Capability.READ)


def test_clocks_may_differ_by_five_seconds() -> None:
    late = bearer(token(exp=NOW - 4))
    assert authority().verify(late, Capability.READ).expires == NOW - 4
    assert authority().verify(bearer(token(iat=NOW + 4)), Capability.READ)


def test_hs384_is_taken_and_weaker_or_absent_signatures_are_not() -> None:
    assert authority().verify(bearer(token(algorithm="HS384")), Capability.READ)
    unsigned = jwt.encode({"cap": 62, "iat": NOW, "exp": NOW + 60}, "", algorithm="none")
    with pytest.raises(Unauthenticated):
        authority().verify(bearer(unsigned), Capability.READ)
    with pytest.raises(Unauthenticated):
        authority().verify(bearer(token(OTHER)), Capability.READ)


@pytest.mark.parametrize("header", ["Basic abc", "Bearer", "Bearer ", "nonsense"])
def test_another_scheme_than_bearer_is_refused(header: str) -> None:
    with pytest.raises(Unauthenticated, match="Bearer"):
        authority().verify({"authorization": header}, Capability.READ)


@pytest.mark.parametrize("keys", ["not base64!", "AA==", "===="])
def test_keys_that_cannot_be_used_are_refused_without_being_repeated(keys: str) -> None:
    with pytest.raises(InvalidKeys) as refused:
        Authority(keys)
    assert keys not in str(refused.value).replace("AA== alone", "")


def test_a_token_of_now_holds_by_the_machines_clock() -> None:
    real = Authority(KEY)
    claims = real.verify(bearer(real.sign(Capability.LIST, ttl=30)), Capability.LIST)
    assert claims.expires is not None
    assert 0 < claims.expires - time.time() <= 30
