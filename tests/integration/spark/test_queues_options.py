"""The options of the sources, and the modules by which Spark finds them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping

import pytest

from windrow.errors import UsageError
from windrow.graph.planning import Limits
from windrow.graph.positions import SourceOffsets, SourcePartition
from windrow.spark.formats import journal, kafka
from windrow.spark.formats.options import ROWS_PER_PARTITION

KAFKA = {"kafka.bootstrap.servers": "k:9092"}


def test_inputs_are_known_by_name_however_they_are_given() -> None:
    given: list[Mapping[str, str]] = [
        {"inputs": '{"Orders": "shop/orders", "prices": {"journal": "shop/p", "partitions": 3}}'},
        {"journal.orders": "shop/orders", "journal.prices": "shop/p"},
        {"journal": "shop/orders", "source": "Orders"},
        {"journal": "shop/orders"},
    ]
    found = [
        {name: (place.address, place.partitions) for name, place in settings.places.items()}
        for settings in map(journal.source_settings, given)
    ]
    assert found == [
        {"Orders": ("shop/orders", None), "prices": ("shop/p", 3)},
        {"orders": ("shop/orders", None), "prices": ("shop/p", None)},
        {"Orders": ("shop/orders", None)},
        {"shop/orders": ("shop/orders", None)},
    ]


def test_every_option_of_journals_arrives() -> None:
    settings = journal.source_settings(
        {
            "journal": "a/b",
            "ADDRESS": "b1:8080,b2:8080",
            "secret_token": "hush",
            "zone": "z",
            "file_root": "/f",
            "patience": "2s",
            "server_name": "n",
            "maxrowsperbatch": "5",
            "maxBytesPerBatch": "7",
            "rowsPerPartition": "9",
            "startingOffsets": "latest",
            "endingOffsets": '{"a/b": {"0": {"incarnation": "i", "index": 3}}}',
            "partitions": "2",
        }
    )
    (place,) = settings.places.values()
    brokers = place.connections.journal
    assert brokers.addresses == ("b1:8080", "b2:8080")
    assert brokers.token is not None
    assert brokers.token.reveal() == "hush"
    assert (brokers.zone, brokers.file_root, brokers.patience) == ("z", "/f", 2.0)
    assert brokers.tls.server_name == "n"
    assert settings.limits == Limits(5, 7)
    assert settings.rows_per_partition == 9
    assert settings.starting == "latest"
    assert settings.ending == SourceOffsets.of({SourcePartition("a/b", "i", 0): 3})
    assert place.partitions == 2
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_properties_of_kafka_are_handed_on() -> None:
    settings = kafka.source_settings(
        {**KAFKA, "topic": "orders", "secret_kafka": '{"sasl.password": "hush"}'}
    )
    (place,) = settings.places.values()
    assert place.connections.kafka == {"bootstrap.servers": "k:9092", "sasl.password": "hush"}
    assert settings.rows_per_partition == ROWS_PER_PARTITION
    assert settings.limits == Limits()


def test_secrets_are_not_shown() -> None:
    shown = repr(journal.source_settings({"journal": "a/b", "secret_token": "hush"}))
    shown += repr(kafka.source_settings({**KAFKA, "topic": "t", "secret_kafka": '{"a": "hush"}'}))
    for options in ({"secret_kafka": "hush"}, {"secret_kafka": '["hush"]'}):
        with pytest.raises(UsageError) as refused:
            kafka.source_settings({**KAFKA, "topic": "t", **options})
        shown += str(refused.value)
    assert "hush" not in shown


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, 'option "inputs" of windrow-journal is .*give what to read'),
        ({"inputs": "{}"}, "give what to read"),
        ({"journal": "a/b", "maxRowPerBatch": "1"}, 'did you mean "maxRowsPerBatch"'),
        ({"journal": "a/b", "subscribe": "x"}, 'has no option "subscribe"$'),
        ({"journal": "a/b", "maxRowsPerBatch": "0"}, "must be a whole number of at least 1"),
        ({"journal": "a/b", "maxBytesPerBatch": "1k"}, "must be a whole number of at least 1"),
        ({"inputs": "[1]"}, "must be a JSON object"),
        ({"inputs": "{"}, "is no JSON"),
        ({"inputs": '{"a": 7}'}, 'input "a" must be "place" or'),
        ({"inputs": '{"a": {"journal": "b/c", "partitions": 0}}'}, 'input "a" must be'),
        ({"inputs": '{"a": {"topic": "b"}}'}, 'input "a" must be'),
        ({"inputs": '{"a": "b/c"}', "journal": "a/b"}, 'give either "inputs" or "journal"'),
        ({"journal": "a/b", "startingOffsets": "soon"}, '"startingOffsets" .* is no JSON'),
        ({"journal": "a/b", "startingOffsets": '{"a": 1}'}, "must be earliest, latest, or"),
        ({"journal": "a/b", "patience": "x"}, '"patience" of windrow-journal'),
        ({"journal": "a/b", "cert_file": "x"}, "cert_file and key_file go together"),
        ({"journal": "a/b", "secret_token": " "}, '"secret_token" of windrow-journal is \\*\\*\\*'),
    ],
)
def test_journal_option_that_makes_no_sense_is_told(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        journal.source_settings(options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": "t"}, r"kafka\.bootstrap\.servers.*give where the brokers are"),
        ({**KAFKA}, "give what to read"),
        ({**KAFKA, "topic": "t", "kafka.group.id": "g"}, "is set by the source itself"),
        ({**KAFKA, "topics": "t"}, 'did you mean "topic"'),
    ],
)
def test_kafka_option_that_makes_no_sense_is_told(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        kafka.source_settings(options)


@pytest.mark.parametrize("name", ["journal", "kafka"])
def test_module_that_spark_looks_for_needs_no_extra_but_its_own(name: str) -> None:
    """One that fails to import would break every Python data source of its environment."""
    absent = ["numpy", "pyarrow", "grpc", "google.protobuf", "confluent_kafka", "pandas"]
    program = (
        "import sys\n"
        f"for name in {absent!r}: sys.modules[name] = None\n"
        f"import pyspark_windrow_{name} as found\n"
        "print(found.DefaultSource.name())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == f"windrow-{name}\n", done.stderr


@pytest.mark.parametrize("name", ["journal", "kafka"])
def test_module_that_spark_looks_for_is_imported_without_spark_too(name: str) -> None:
    program = f"import sys; sys.modules['pyspark'] = None; import pyspark_windrow_{name}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
