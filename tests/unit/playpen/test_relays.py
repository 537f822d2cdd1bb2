from __future__ import annotations

import pytest

from windrow.config import load
from windrow.config.layers import environment_layer
from windrow.playpen.errors import InvalidVariable
from windrow.playpen.relays import relay_variables

PREFIX = "WINDROW__RELAY__COMPETING__"


def variables(environ: dict[str, str]) -> dict[str, str]:
    return relay_variables("sqlite:///x.db", "http://127.0.0.1:3001", "relay-1", environ)


def test_variables_of_a_play_pen_become_the_configuration_of_a_relay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = variables({"POLL_INTERVAL_MS": "10", "RETRY_DELAY_MS": "30000", "MAX_ATTEMPTS": "3"})
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    relay = load(None, []).config.relay
    assert (relay.mode, relay.target) == ("competing", "http")
    assert relay.http.url == "http://127.0.0.1:3001/receive"
    competing = relay.competing
    assert (competing.poll_interval, competing.retry_delay) == (0.01, 30.0)
    assert competing.max_attempts == 3


def test_pause_longer_than_the_longest_one_is_still_a_valid_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = variables({"POLL_INTERVAL_MS": "5000", "RETRY_DELAY_MS": "900000"})
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    competing = load(None, []).config.relay.competing
    assert (competing.poll_interval, competing.retry_delay) == (5.0, 900.0)


def test_variable_of_our_own_is_stronger() -> None:
    given = variables({"MAX_ATTEMPTS": "3", f"{PREFIX}MAX_ATTEMPTS": "9"})
    assert f"{PREFIX}MAX_ATTEMPTS" not in given


def test_without_variables_the_relay_keeps_its_own_defaults() -> None:
    assert not [name for name in variables({}) if name.startswith(PREFIX)]


@pytest.mark.parametrize("value", ["0", "-1", "10ms", "1.5", "9" * 30, "٣"])
def test_variable_that_is_no_number_is_named_with_its_value(value: str) -> None:
    with pytest.raises(InvalidVariable, match="POLL_INTERVAL_MS"):
        variables({"POLL_INTERVAL_MS": value})


def test_names_of_variables_are_those_that_the_configuration_reads() -> None:
    layer = environment_layer(variables({}))
    assert ("relay", "http", "url") in {setting.path for setting in layer.settings}
