"""goharvest's ``reaper.yaml``: what is in it, and what it becomes."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.config import Config, Dsn, Secret, file_layer, resolve
from windrow.errors import ConfigError, InvalidValue, UnknownKey, UnreadableConfig
from windrow.go_duration import MILLISECOND, SECOND, format_go_duration, parse_go_duration
from windrow.relay.election.errors import ForcedProperty
from windrow.relay.errors import InvalidReaperFile
from windrow.relay.go_dsn import as_libpq
from windrow.relay.reaper_config import Translation, translate
from windrow.relay.reaper_file import LIMITS, ReaperFile, parse_reaper, validate, with_defaults

README_SAMPLE = """\
harvest:
  baseKafkaConfig:
    bootstrap.servers: kafka-1:9092
  producerKafkaConfig:
    compression.type: lz4
    delivery.timeout.ms: 10000
  leaderTopic: my-app-name
  leaderGroupID: my-app-name
  dataSource: host=localhost port=5432 user=postgres password= dbname=postgres sslmode=disable
  outboxTable: outbox
  limits:
    minPollInterval: 1s
    heartbeatTimeout: 5s
    maxInFlightRecords: 1000
    minMetricsInterval: 5s
    sendConcurrency: 4
    sendBuffer: 10
logging:
  level: Debug
"""
SECURE_SAMPLE = """\
harvest:
  baseKafkaConfig:
    bootstrap.servers: kafka-1:9094
    security.protocol: sasl_ssl
    sasl.mechanism: SCRAM-SHA-512
    sasl.username: alice
    sasl.password: alice-secret
  leaderGroupID: my-app-name
"""


def parse(text: str) -> ReaperFile:
    return parse_reaper(text, "reaper.yaml")


def parse_limits(**limits: Any) -> ReaperFile:
    lines = "".join(f"    {name}: {value}\n" for name, value in limits.items())
    return parse(f"harvest:\n  limits:\n{lines}")


def check(text: str) -> ReaperFile:
    file = parse(text)
    validate(file)
    return file


def config_of(text: str) -> Config:
    return resolve(Config, [file_layer("reaper.yaml", translated(text).content)]).config


def translated(text: str) -> Translation:
    return translate(check(text))


def message_of(file: ReaperFile) -> str:
    with pytest.raises(InvalidReaperFile) as refused:
        validate(file)
    assert str(refused.value) == f"reaper.yaml: {refused.value.message}"
    return refused.value.message


# -- Go's durations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("10ms", 10_000_000),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1h2m3s", 3_723_000_000_000),
        ("-1ms", -1_000_000),
        ("+2us", 2_000),
        ("2µs", 2_000),
        ("1ns", 1),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, nanoseconds: int) -> None:
    assert parse_go_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "1", "ms", "1 ms", "1d", "--1s", "1s-", "s1"])
def test_what_go_does_not_take_for_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_go_duration(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (245_000_000_000, "4m5s"),
        (18_367_000_000_000, "5h6m7s"),
        (60_000_000_000, "1m0s"),
        (-1_000_000, "-1ms"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(nanoseconds: int, text: str) -> None:
    assert format_go_duration(nanoseconds) == text


@given(st.integers(-(10**15), 10**15))
def test_what_is_written_is_read_back(nanoseconds: int) -> None:
    assert parse_go_duration(format_go_duration(nanoseconds)) == nanoseconds


# -- reading -------------------------------------------------------------------------------------


def test_an_empty_file_has_all_of_goharvests_defaults() -> None:
    file = check("")
    assert file.base_kafka == {"bootstrap.servers": "localhost:9092"}
    assert file.producer_kafka == {}
    assert file.data_source == (
        "host=localhost port=5432 user=postgres password= dbname=postgres sslmode=disable"
    )
    assert (file.outbox_table, file.name, file.level) == ("outbox", "", "Debug")
    assert (file.leader_group, file.leader_topic) == ("reaper", "reaper.neli")
    assert file.limits == {
        "ioErrorBackoff": 500 * MILLISECOND,
        "pollDuration": None,
        "minPollInterval": None,
        "maxPollInterval": 2_500 * MILLISECOND,
        "heartbeatTimeout": 5 * SECOND,
        "drainInterval": 2_500 * MILLISECOND,
        "queueTimeout": 30 * SECOND,
        "markBackoff": 10 * MILLISECOND,
        "maxInFlightRecords": 1000,
        "sendConcurrency": 8,
        "sendBuffer": 10,
        "markQueryRecords": 100,
        "minMetricsInterval": 5 * SECOND,
    }


def test_a_fully_populated_file_is_read_whole() -> None:
    """The trailing tabs are goharvest's own; its parser does not mind them."""
    file = check(
        "harvest:\n"
        "  baseKafkaConfig: \n    bootstrap.servers: localhost:9093\n"
        "  producerKafkaConfig:\n    compression.type: lz4\n"
        "  leaderTopic: leader-topic\n  leaderGroupID: leader-group-id\n"
        "  dataSource: data-source\n  outboxTable: outbox-table\n  name: test-name\n"
        "  limits:\n    ioErrorBackoff: 10ms\n    pollDuration: 20ms\n    minPollInterval: 30ms\n"
        "    maxPollInterval: 35ms\n    heartbeatTimeout: 15ms\t\n    drainInterval: 32ms\n"
        "    queueTimeout: 40ms\t\n    markBackoff: 50ms\n    maxInFlightRecords: 60\n"
        "    sendConcurrency: 70\n    sendBuffer: 80\n    markQueryRecords: 85\n"
        "    minMetricsInterval: 90ms\n"
    )
    assert file.base_kafka == {"bootstrap.servers": "localhost:9093"}
    assert file.producer_kafka == {"compression.type": "lz4"}
    assert (file.leader_topic, file.leader_group) == ("leader-topic", "leader-group-id")
    assert (file.data_source, file.outbox_table) == ("data-source", "outbox-table")
    assert file.name == "test-name"
    durations = [value for name, value in file.limits.items() if LIMITS[name].kind == "duration"]
    expected = [10, 20, 30, 35, 15, 32, 40, 50, 90]
    assert durations == [value * MILLISECOND for value in expected]
    counts = [value for name, value in file.limits.items() if LIMITS[name].kind == "count"]
    assert counts == [60, 70, 80, 85]
    assert file.given == frozenset(LIMITS)


def test_limits_that_are_left_out_keep_their_defaults() -> None:
    file = parse_limits(ioErrorBackoff="10ms", pollDuration="20ms", minPollInterval="30ms")
    assert file.limits["ioErrorBackoff"] == 10 * MILLISECOND
    assert file.limits["pollDuration"] == 20 * MILLISECOND
    assert file.limits["minPollInterval"] == 30 * MILLISECOND
    assert file.limits["markBackoff"] == 10 * MILLISECOND
    assert file.given == {"ioErrorBackoff", "pollDuration", "minPollInterval"}


def test_a_bare_number_is_nanoseconds_as_in_go() -> None:
    assert parse_limits(markBackoff=1_000_000).limits["markBackoff"] == MILLISECOND


def test_defaults_follow_from_other_limits_in_goharvests_order() -> None:
    limits = with_defaults({"heartbeatTimeout": 40 * SECOND})
    assert limits["maxPollInterval"] == limits["drainInterval"] == 20 * SECOND
    limits = with_defaults({"heartbeatTimeout": 40 * SECOND, "queueTimeout": 15 * SECOND})
    assert limits["maxPollInterval"] == 20 * SECOND
    assert limits["drainInterval"] == 15 * SECOND


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("harvets: {}", 'unknown key "harvets" in reaper.yaml; did you mean "harvest"?'),
        ("harvest:\n  leaderTopik: x", 'unknown key "harvest.leaderTopik"'),
        ("harvest:\n  limits:\n    sendBufer: 1", 'did you mean "harvest.limits.sendBuffer"?'),
        ("logging:\n  lvel: Info", 'unknown key "logging.lvel"'),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known(text: str, problem: str) -> None:
    with pytest.raises(UnknownKey) as refused:
        parse(text)
    assert problem in str(refused.value)


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(UnreadableConfig, match=r"the key outboxTable is there twice.*line 3"):
        parse("harvest:\n  outboxTable: a\n  outboxTable: b\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("harvest: 7", "must be a mapping"),
        ("harvest:\n  limits:\n    sendBuffer: many", "must be a whole number"),
        ("harvest:\n  limits:\n    markBackoff: 10", None),
        ("harvest:\n  limits:\n    markBackoff: soon", "write it as Go does"),
        ("harvest:\n  limits:\n    markBackoff: [1]", "must be a duration"),
        ("harvest:\n  leaderTopic: [a]", "must be text"),
        ("logging:\n  level: debug", "one of All, Trace, Debug, Info, Warn, Error, Off"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(text: str, problem: str | None) -> None:
    if problem is None:
        parse(text)
        return
    with pytest.raises(InvalidValue, match=problem):
        parse(text)


@pytest.mark.parametrize("text", ["harvest: [", "harvest:\n\tlimits: x", "a: 'b", "\x00"])
def test_what_is_not_yaml_is_told_with_its_place_and_without_its_text(text: str) -> None:
    with pytest.raises(UnreadableConfig, match=r"cannot read configuration reaper\.yaml"):
        parse(text)


def test_a_mistake_in_yaml_does_not_give_half_a_password_away() -> None:
    with pytest.raises(UnreadableConfig) as refused:
        parse("harvest:\n  dataSource: *hunter2\n")
    assert "hunter2" not in str(refused.value)


# -- validating, in goharvest's words ------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"ioErrorBackoff": -1}, "Limits: (IOErrorBackoff: must be no less than 0.)."),
        ({"drainInterval": 0}, "Limits: (DrainInterval: cannot be blank.)."),
        ({"drainInterval": "1ns"}, "Limits: (DrainInterval: must be no less than 1ms.)."),
        ({"sendConcurrency": -1}, "Limits: (SendConcurrency: must be no less than 1.)."),
        ({"sendConcurrency": 0}, "Limits: (SendConcurrency: cannot be blank.)."),
        ({"sendBuffer": -1}, "Limits: (SendBuffer: must be no less than 0.)."),
        ({"markQueryRecords": 0}, "Limits: (MarkQueryRecords: cannot be blank.)."),
        ({"maxInFlightRecords": -5}, "Limits: (MaxInFlightRecords: must be no less than 1.)."),
        ({"minMetricsInterval": "-1s"}, "Limits: (MinMetricsInterval: must be no less than 0.)."),
        (
            {"minPollInterval": "100ms", "maxPollInterval": "50ms"},
            "Limits: (MaxPollInterval: must be no less than 100ms.).",
        ),
        (
            {"sendConcurrency": -1, "drainInterval": 0, "markBackoff": -1},
            "Limits: (DrainInterval: cannot be blank; MarkBackoff: must be no less than 0;"
            " SendConcurrency: must be no less than 1.).",
        ),
    ],
)
def test_a_broken_limit_is_told_in_goharvests_words(limits: dict[str, Any], message: str) -> None:
    assert message_of(parse_limits(**limits)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  leaderTopic: a b", "LeaderTopic: must be in a valid format."),
        (
            "  leaderGroupID: a/b",  # and the topic is named after it
            "LeaderGroupID: must be in a valid format; LeaderTopic: must be in a valid format.",
        ),
        ("  name: fifty%", "Name: must be in a valid format."),
        ("  limits:\n    heartbeatTimeout: 0", "HeartbeatTimeout: cannot be blank."),
        ("  limits:\n    pollDuration: 1us", "PollDuration: must be no less than 1ms."),
    ],
)
def test_what_goneli_refuses_is_told_in_its_words(text: str, message: str) -> None:
    extra = "    maxPollInterval: 1s\n" if "heartbeatTimeout" in text else ""
    assert message_of(parse(f"harvest:\n{text}\n{extra}")) == message


def test_zero_is_no_less_than_anything_where_nothing_is_required() -> None:
    validate(parse_limits(markBackoff=0, ioErrorBackoff=0, sendBuffer=0, minMetricsInterval=0))


@pytest.mark.parametrize("section", ["baseKafkaConfig", "producerKafkaConfig"])
def test_idempotence_cannot_be_overridden(section: str) -> None:
    with pytest.raises(ForcedProperty) as refused:
        check(f"harvest:\n  {section}:\n    enable.idempotence: false\n")
    assert str(refused.value) == "cannot override configuration 'enable.idempotence'"


@pytest.mark.parametrize(
    "key", ["group.id", "enable.auto.commit", "session.timeout.ms", "delivery.timeout.ms"]
)
def test_what_the_election_forces_cannot_be_in_the_base(key: str) -> None:
    with pytest.raises(ForcedProperty, match=key):
        check(f"harvest:\n  baseKafkaConfig:\n    {key}: 1\n")


def test_linger_may_be_set_for_the_producer_alone() -> None:
    check("harvest:\n  producerKafkaConfig:\n    linger.ms: 0\n")
    with pytest.raises(ForcedProperty):
        check("harvest:\n  baseKafkaConfig:\n    linger.ms: 0\n")


# -- what it becomes -----------------------------------------------------------------------------


def test_goharvests_sample_becomes_our_configuration() -> None:
    config = config_of(README_SAMPLE)
    relay, election = config.relay, config.relay.election
    assert config.kafka.bootstrap == "kafka-1:9092"
    assert config.kafka.properties == {}
    assert config.kafka.producer == {
        "compression.type": "lz4",
        "partitioner": "consistent_random",
    }
    assert config.database.table == "outbox"
    assert config.database.dsn.address == "localhost:5432"
    assert (relay.mode, relay.delivery_timeout, relay.meter_interval) == ("barrier", 10.0, 5.0)
    assert (election.kind, election.assignor) == ("neli", "range")
    assert (election.group, election.topic) == ("my-app-name", "my-app-name")
    assert (election.heartbeat_timeout, election.heartbeat_interval) == (5.0, 1.0)
    assert (relay.limits.records, relay.limits.batch) == (1000, 100)
    assert config.log.level == "debug"


def test_an_empty_file_relays_with_goharvests_defaults() -> None:
    config = config_of("")
    election, limits = config.relay.election, config.relay.limits
    assert config.kafka.bootstrap == "localhost:9092"
    assert (election.group, election.topic) == ("reaper", "reaper.neli")
    assert (election.heartbeat_timeout, election.heartbeat_interval) == (5.0, 0.1)
    assert (limits.records, limits.batch) == (1000, 100)
    assert config.relay.polling.quick == 0.01


def test_secrets_of_the_file_are_hidden_everywhere() -> None:
    file = check(SECURE_SAMPLE)
    config = config_of(SECURE_SAMPLE)
    assert config.kafka.properties["sasl.password"] == Secret("alice-secret")
    for text in (repr(file), repr(translate(file)), repr(config), str(config)):
        assert "alice-secret" not in text


@pytest.mark.parametrize(
    ("level", "ours"),
    [("All", "debug"), ("Trace", "debug"), ("Info", "info"), ("Warn", "warning"), ("Off", "error")],
)
def test_a_level_becomes_the_nearest_of_ours(level: str, ours: str) -> None:
    assert config_of(f"logging:\n  level: {level}\n").log.level == ours
    assert hasattr(logging, ours.upper())


def test_a_partitioner_in_the_file_is_kept() -> None:
    for section in ("baseKafkaConfig", "producerKafkaConfig"):
        config = config_of(f"harvest:\n  {section}:\n    partitioner: murmur2_random\n")
        merged = {**config.kafka.properties, **config.kafka.producer}
        assert merged["partitioner"] == "murmur2_random"


def test_what_has_no_effect_is_named_with_the_reason_and_only_if_it_is_set() -> None:
    assert translated(README_SAMPLE).ignored == (
        "sendConcurrency, sendBuffer: one producer serves every key at once",
    )
    assert translated("").ignored == ()
    everything = "".join(f"    {name}: 1s\n" for name in ("queueTimeout", "drainInterval"))
    (line,) = translated(f"harvest:\n  limits:\n{everything}").ignored
    assert line == "queueTimeout, drainInterval: a record waits behind its own key only"


@pytest.mark.parametrize(
    ("producer", "heartbeat", "seconds", "warning"),
    [
        ("delivery.timeout.ms: 10000", "5s", 10.0, None),
        ("delivery.timeout.ms: '8000'", "5s", 8.0, None),
        ("message.timeout.ms: 4000", "2s", 4.0, None),
        ("delivery.timeout.ms: 10001", "5s", 10.0, "delivery.timeout.ms of 10.001 s would"),
        ("message.timeout.ms: 0", "2s", 4.0, "message.timeout.ms of 0 s would"),
        ("linger.ms: 5", "2s", 4.0, "delivery.timeout.ms is not set, and Kafka's 300 s would"),
    ],
)
def test_a_delivery_timeout_that_would_outlast_the_take_over_is_shortened_and_told(
    producer: str, heartbeat: str, seconds: float, warning: str | None
) -> None:
    """A leader of goharvest's that was cut off releases minutes-old records after newer ones."""
    text = (
        f"harvest:\n  producerKafkaConfig:\n    {producer}\n"
        f"  limits:\n    heartbeatTimeout: {heartbeat}\n"
    )
    config, told = config_of(text), translated(text).warnings
    assert config.relay.delivery_timeout == seconds
    assert not {"delivery.timeout.ms", "message.timeout.ms"} & set(config.kafka.producer)
    assert bool(told) is (warning is not None)
    assert all(line.startswith(warning or "") for line in told)


def test_a_delivery_timeout_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidValue, match="must be milliseconds"):
        translated("harvest:\n  producerKafkaConfig:\n    delivery.timeout.ms: soon\n")


def test_a_quick_look_without_pause_is_a_millisecond_here() -> None:
    polling = config_of("harvest:\n  limits:\n    markBackoff: 0\n").relay.polling
    assert polling.quick == 0.001
    assert polling.slow == 0.1
    assert config_of("harvest:\n  limits:\n    markBackoff: 2s\n").relay.polling.slow == 2.0


@pytest.mark.parametrize(
    ("written", "table"),
    [("outbox", "outbox"), ("App.OutBox", "app.outbox"), ('app."OutBox"', "app.OutBox")],
)
def test_an_unquoted_table_name_is_folded_as_the_server_folded_it(written: str, table: str) -> None:
    assert config_of(f"harvest:\n  outboxTable: '{written}'\n").database.table == table


def test_a_table_name_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a table name"):
        config_of("harvest:\n  outboxTable: outbox; DROP TABLE outbox\n")


def test_a_heartbeat_too_short_for_a_margin_still_gives_a_configuration() -> None:
    config = config_of("harvest:\n  limits:\n    heartbeatTimeout: 200ms\n")
    assert config.relay.election.margin == 0.02


# -- the data source -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data_source", "libpq"),
    [
        ("host=a port=5432 sslmode=disable", "host=a port=5432 sslmode=disable"),
        ("host = a  user='it\\'s'", "host=a user='it\\'s'"),
        ("host=a binary_parameters=yes", "host=a"),
        ("host=a search_path=x,y", "host=a options='-c search_path=x,y'"),
        ("host=a timezone='A B'", "host=a options='-c timezone=A\\\\ B'"),
        ("host=a options='-c a=1' b=2", "host=a options='-c a=1 -c b=2'"),
        ("host=a password=", "host=a password=''"),
        ("postgres://u@h/db", "postgres://u@h/db"),
        ("postgres://u@h/db?sslmode=disable", "postgres://u@h/db?sslmode=disable"),
        ("postgres://u@h/db?search_path=x", "postgres://u@h/db?options=-c%20search_path%3Dx"),
        ("postgresql://u@h/db?binary_parameters=yes", "postgresql://u@h/db"),
    ],
)
def test_a_data_source_says_the_same_to_libpq(data_source: str, libpq: str) -> None:
    assert as_libpq(data_source) == libpq
    assert Dsn(libpq)


def test_a_blank_value_takes_what_follows_as_both_drivers_have_it() -> None:
    """The default of goharvest: its password is ``dbname=postgres``, its database the user's."""
    assert as_libpq("user=postgres password= dbname=postgres") == (
        "user=postgres password=dbname=postgres"
    )


@pytest.mark.parametrize("text", ["***corrupt connection info string***", "hunter2", "a=1 'b"])
def test_a_corrupt_data_source_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config_of(f'harvest:\n  dataSource: "{text}"\n')
    assert text not in str(refused.value)


def test_nothing_of_kafka_or_postgres_is_needed_to_read_a_file(tmp_path: Path) -> None:
    import subprocess

    source = (
        "import sys; sys.modules['confluent_kafka'] = sys.modules['psycopg'] = None\n"
        "from windrow.relay.reaper_file import parse_reaper, validate\n"
        "from windrow.relay.reaper_config import translate\n"
        "file = parse_reaper('', 'x'); validate(file); translate(file)\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True, cwd=tmp_path)
