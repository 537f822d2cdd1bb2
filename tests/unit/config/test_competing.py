from __future__ import annotations

import pytest

from windrow.config import Config
from windrow.errors import ConfigError
from windrow.relay.assembly import assemble
from windrow.telemetry import EventBus

URL = {"url": "https://shop.example/events"}


def config(**relay: object) -> Config:
    return Config.model_validate({"relay": relay})


def test_either_of_mode_and_target_brings_the_other() -> None:
    for given in ({"mode": "competing"}, {"target": "http"}):
        relay = config(**given, http=URL).relay
        assert (relay.mode, relay.target) == ("competing", "http")


@pytest.mark.parametrize(
    "relay",
    [{"mode": "competing", "target": "kafka"}, {"mode": "barrier", "target": "http"}],
)
def test_competing_relays_and_http_go_together_only(relay: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="goes with 'competing' only"):
        config(**relay, http=URL)


def test_competing_relay_has_to_know_where_to() -> None:
    with pytest.raises(ValueError, match=r"set relay\.http\.url"):
        config(mode="competing")
    assert config(mode="competing", http={"routes": {"heroes": URL["url"]}}).relay.http.routes


@pytest.mark.parametrize(
    ("competing", "problem"),
    [
        ({"retry_delay": 10.0, "max_retry_delay": 1.0}, "max_retry_delay is shorter"),
        ({"poll_interval": 2.0, "idle_interval": 1.0}, "idle_interval is shorter"),
        ({"lock_expiry": 0}, "greater than 0"),
        ({"max_attempts": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    competing: dict[str, object], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        config(competing=competing)


def test_lock_expiry_and_retry_delay_are_two_settings() -> None:
    competing = config(competing={"lock_expiry": 5.0}).relay.competing
    assert (competing.lock_expiry, competing.retry_delay) == (5.0, 1.0)


@pytest.mark.parametrize(
    ("dsn", "system"),
    [("mysql://root@db/shop", "MySQL or MariaDB"), ("sqlite:///shop.db", "SQLite")],
)
@pytest.mark.parametrize("mode", ["barrier", "transactional"])
def test_other_databases_are_relayed_in_competing_mode_only(
    dsn: str, system: str, mode: str
) -> None:
    given = Config.model_validate({"database": {"dsn": dsn}, "relay": {"mode": mode}})
    with pytest.raises(ConfigError, match=f"an outbox in {system} is relayed in no order"):
        assemble(given, EventBus())


def test_competing_mode_is_no_ordered_relay() -> None:
    with pytest.raises(ConfigError, match="it has no leader"):
        assemble(config(mode="competing", http=URL), EventBus())
