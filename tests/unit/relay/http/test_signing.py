"""Who sent a request, and whether it is what they sent."""

from __future__ import annotations

import pytest

from windrow.config.http import signing_keys
from windrow.config.secrets import Secret
from windrow.relay.targets.http.errors import InvalidSignature
from windrow.relay.targets.http.signing import new_secret, sign, verify_signature

OLD, NEW = new_secret(), new_secret()
NOW = 1_767_268_800
BODY = b'{"total":1}'


def headers(secret: str = NEW, body: bytes = BODY, at: int = NOW) -> dict[str, str]:
    signature = sign(signing_keys(Secret(secret)), "6f9a", at, body)
    return {
        "Webhook-Id": "6f9a",
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": signature,
    }


def test_the_example_of_standard_webhooks_is_signed_as_its_libraries_do() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    keys = signing_keys(Secret(secret))
    signature = sign(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_was_signed_is_trusted_and_gives_the_id() -> None:
    assert verify_signature(headers(), BODY, NEW, now=NOW) == "6f9a"


def test_while_secrets_change_either_side_may_have_both() -> None:
    assert verify_signature(headers(f"{NEW} {OLD}"), BODY, OLD, now=NOW) == "6f9a"
    assert verify_signature(headers(OLD), BODY, [NEW, OLD], now=NOW) == "6f9a"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"Webhook-Id": "6f9b"}, "no signature of it is right"),
        ({"Webhook-Timestamp": str(NOW + 1)}, "no signature of it is right"),
        ({"Webhook-Signature": "v1,AAAA"}, "no signature of it is right"),
        ({"Webhook-Signature": "v1a,AAAA"}, "no signature of it is right"),
        ({"Webhook-Signature": "v1,ü"}, "no signature of it is right"),
        ({"Webhook-Signature": ""}, "no webhook-signature"),
        ({"Webhook-Timestamp": "soon"}, "no number"),
        ({"Webhook-Timestamp": str(NOW - 301)}, "ago"),
        ({"Webhook-Timestamp": str(NOW + 301)}, "ago"),
    ],
)
def test_anything_that_was_changed_is_found_out(change: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSignature, match=reason):
        verify_signature(headers() | change, BODY, NEW, now=NOW)


def test_another_body_or_another_secret_is_found_out() -> None:
    with pytest.raises(InvalidSignature):
        verify_signature(headers(), BODY + b" ", NEW, now=NOW)
    with pytest.raises(InvalidSignature):
        verify_signature(headers(OLD), BODY, NEW, now=NOW)


def test_a_recording_is_refused_though_its_signature_is_right() -> None:
    with pytest.raises(InvalidSignature, match="signed 400 s ago"):
        verify_signature(headers(), BODY, NEW, now=NOW + 400)
    assert verify_signature(headers(), BODY, NEW, now=NOW + 400, tolerance=500) == "6f9a"


def test_no_error_holds_the_secret() -> None:
    with pytest.raises(InvalidSignature) as caught:
        verify_signature(headers(OLD), BODY, NEW, now=NOW)
    assert NEW not in str(caught.value)
    assert NEW.removeprefix("whsec_") not in repr(caught.value)
