"""What goharvest's unit tests ask of its configuration, where the file is not all of it."""

from __future__ import annotations

import re
import socket

import pytest

from windrow.config import Config, Database, Dsn
from windrow.config.relay import Election, Kafka, Relay
from windrow.errors import InvalidValue
from windrow.relay import service
from windrow.relay.assembly import relay_name
from windrow.relay.election.errors import ForcedProperty
from windrow.relay.election.shared_neli import SharedNeli
from windrow.relay.road import BarrierRoad


def neli_config(**properties: str) -> Config:
    election = Election(kind="neli", group="my-app", assignor="range")
    return Config(kafka=Kafka(properties=properties), relay=Relay(election=election, name="node"))


def test_an_election_by_kafka_is_built_from_the_configuration_and_closed() -> None:
    relay = service.Relay(neli_config())
    election = relay._election
    assert isinstance(election, SharedNeli)
    settings = election._neli._settings
    assert (settings.group, settings.leader_topic) == ("my-app", "my-app.neli")
    assert (settings.name, settings.assignor, settings.shards) == ("node", "range", 1)
    assert settings.timing.session_timeout == 15.0
    election.close()


def test_what_the_election_forces_is_refused_when_the_relay_is_built() -> None:
    with pytest.raises(ForcedProperty, match=r"cannot override configuration 'group\.id'"):
        service.Relay(neli_config(**{"group.id": "mine"}))


def test_the_configured_database_and_table_are_the_ones_that_are_used() -> None:
    database = Database(dsn=Dsn("postgresql://me@there:7/db"), table="app.events")
    relay = service.Relay(Config(database=database))
    road = relay._parts.road_of(0)
    assert isinstance(road, BarrierRoad)
    store = road.store
    assert str(store.table) == "app.events"
    assert store._reading._dsn == "postgresql://me@there:7/db"


def test_the_configuration_has_a_text_without_its_secrets() -> None:
    database = Database(dsn=Dsn("postgresql://me:hunter2@there/db"))
    kafka = Kafka(properties={"sasl.password": "hunter3", "client.id": "me"})
    text = str(Config(database=database, kafka=kafka))
    assert "limits=Limits(batch=8000" in text
    assert "client.id" in text
    assert "hunter" not in text


def test_a_relay_without_a_name_is_called_by_host_process_and_start() -> None:
    assert re.fullmatch(r"[a-zA-Z0-9._-]+_\d+_\d+", relay_name(Config()))
    assert relay_name(Config(relay=Relay(name="me"))) == "me"


def test_a_host_without_a_name_is_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise OSError("simulated")

    monkeypatch.setattr(socket, "gethostname", fail)
    assert relay_name(Config()).startswith("localhost_")


def test_a_host_name_that_kafka_would_not_take_is_made_one_that_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "café%1")
    assert relay_name(Config()).startswith("caf__1_")


@pytest.mark.parametrize("key", ["delivery.timeout.ms", "message.timeout.ms"])
@pytest.mark.parametrize("section", ["properties", "producer"])
def test_a_delivery_timeout_cannot_be_put_in_past_the_relay(section: str, key: str) -> None:
    """It would outlast the right to lead, and nobody would know."""
    kafka = Kafka.model_validate({section: {key: 300_000}})
    with pytest.raises(InvalidValue, match=r"set relay\.delivery_timeout"):
        service.Relay(Config(kafka=kafka))
