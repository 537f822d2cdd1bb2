"""Which of the four answers an error of Kafka's client calls for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow.errors import Unreachable
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.targets.message import Malformed

PERMANENT = frozenset(
    {
        "INVALID_MSG",
        "INVALID_MSG_SIZE",
        "INVALID_RECORD",
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PART",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "_INVALID_ARG",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    }
)
MALFORMED = (Malformed, TypeError, ValueError)
"""Of a row that is of no form or type that a message could have."""
DOWN = frozenset({"LEADER_NOT_AVAILABLE", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TRANSPORT"})
UNKNOWN = frozenset({"REQUEST_TIMED_OUT", "_MSG_TIMED_OUT", "_PURGE_INFLIGHT", "_TIMED_OUT"})


def is_fatal(error: Any) -> bool:
    """Whether the client that gave this ``KafkaError`` is of no more use."""
    return bool(error.fatal()) or error.name() == "_FATAL"


def classify(error: Any) -> Failure:
    """The failure behind a ``KafkaError``, the exception around one, or a malformed row."""
    if isinstance(error, MALFORMED):
        return Failure(FailureKind.PERMANENT, "malformed", str(error))
    kafka_error = error.args[0] if isinstance(error, Exception) else error
    name = kafka_error.name()
    return Failure(kind_of(name), name, kafka_error.str())


def kind_of(name: str) -> FailureKind:
    """The kind, by the name librdkafka gives the error."""
    if name in PERMANENT:
        return FailureKind.PERMANENT
    if name in DOWN:
        return FailureKind.TARGET_DOWN
    if name in UNKNOWN:
        return FailureKind.UNKNOWN
    return FailureKind.RETRIABLE


def unreachable(properties: Mapping[str, Any], error: Exception) -> Unreachable:
    """That Kafka gave no answer, from the exception that a client or a call of its ended with."""
    reason = "no answer in time" if isinstance(error, TimeoutError) else error.args[0].str()
    return Unreachable("Kafka", str(properties.get("bootstrap.servers")), reason)
