"""Where keys lie, and who is told."""

from __future__ import annotations

import pytest

from windrow.config import Config
from windrow.config.relay import Kafka
from windrow.relay.partitioning import judge_partitioner, partitioner_of


def test_by_default_a_key_lies_where_javas_clients_put_it() -> None:
    assert partitioner_of(Config()) == "murmur2_random"
    assert judge_partitioner(Config()) == []


@pytest.mark.parametrize("section", ["properties", "producer"])
def test_another_partitioner_is_worth_a_note(section: str) -> None:
    kafka = Kafka.model_validate({section: {"partitioner": "fnv1a"}})
    (finding,) = judge_partitioner(Config(kafka=kafka))
    assert (finding.level, finding.subject) == ("note", "partitioner")
    assert finding.text.startswith("is fnv1a: a key lies on another partition")
    assert "goharvest" not in finding.text


def test_goharvests_partitioner_is_named_as_such() -> None:
    kafka = Kafka(producer={"partitioner": "consistent_random"})
    (finding,) = judge_partitioner(Config(kafka=kafka))
    assert finding.text.endswith("on the same as goharvest's")
