"""What may be said about HTTP, and what is refused at the door."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from windrow.config.http import HttpDelivery
from windrow.config.secrets import Secret

SECRET = "whsec_" + "QUJD" * 8


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"url": "ftp://shop.example/"}, "http or https"),
        ({"url": "shop.example"}, "http or https"),
        ({"url": "https:///events"}, "http or https"),
        ({"url": "https://shop.example:99999/"}, "not a URL"),
        ({"url": "https://me:pw@shop.example/"}, "Authorization"),
        ({"url": "https://shop.example/#top"}, "fragment"),
        ({"url": "https://shop.example/a b"}, "percent-encoded"),
        ({"routes": {"orders": "nowhere"}}, "http or https"),
        ({"headers": {"bad name": "x"}}, "no name of a header"),
        ({"headers": {"X-Note": "a\r\nb"}}, "printable ASCII"),
        ({"headers": {"Idempotency-Key": "x"}}, "set for each message"),
        ({"headers": {"ce-id": "x"}}, "set for each message"),
        ({"secret": "hunter2"}, "whsec_"),
        ({"secret": "whsec_QUJD"}, "24 to 64 bytes"),
        ({"secret": "whsec_???"}, "base64"),
        ({"secret": "  "}, "empty"),
        ({"allowed_hosts": ["10.0.0.0/99"]}, "not a network"),
        ({"allowed_hosts": ["*.example"]}, "neither"),
        ({"allowed_hosts": ["shop:80"]}, "neither"),
        ({"per_host": 0}, "greater than or equal to 1"),
    ],
)
def test_what_could_never_be_sent_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        HttpDelivery.model_validate(settings)


def test_secrets_do_not_show_themselves_nor_in_errors() -> None:
    delivery = HttpDelivery(
        url="https://shop.example/",
        headers={"Authorization": "Bearer hunter2"},
        secret=Secret(f"{SECRET} {SECRET}"),
    )
    for text in (repr(delivery), delivery.model_dump_json()):
        assert "hunter2" not in text
        assert SECRET not in text
    with pytest.raises(ValidationError) as caught:
        HttpDelivery(secret=Secret("whsec_hunter2"))
    assert "hunter2" not in str(caught.value)


def test_hosts_addresses_and_networks_may_be_allowed() -> None:
    hosts = ["shop.internal", "10.0.0.0/8", "::1", "[::1]", "127.0.0.1", "fd00::/8"]
    assert HttpDelivery(allowed_hosts=hosts).allowed_hosts == hosts
