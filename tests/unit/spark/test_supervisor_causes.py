"""Why a query ended, told from what Spark says of it."""

from __future__ import annotations

import pytest

from windrow.errors import Unreachable, UsageError, WindrowError
from windrow.graph.delivery_errors import (
    AttemptsExhausted,
    BatchInterrupted,
    DeliveryUnknown,
    Fenced,
    SinkLost,
)
from windrow.journal.client.errors import CallFailed, WriterFenced
from windrow.spark.runner.causes import CauseKind, cause_in, cause_of

FROM_A_WORKER = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage \
failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/worker.py", line 1, in main
    process()
{lines}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException
"""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Fenced("shop/price", 3, 4), CauseKind.FENCED),
        (WriterFenced("shop/priced", "w", "a", "b"), CauseKind.FENCED),
        (SinkLost("shop/price", 7), CauseKind.REFUSED),
        (AttemptsExhausted("shop/price", 7, 5, "boom"), CauseKind.EXHAUSTED),
        (BatchInterrupted("shop/price", 7, "boom"), CauseKind.FAILURE),
        (DeliveryUnknown("shop/price", 7, "7e", "time-out"), CauseKind.OUTAGE),
        (Unreachable("broker", "localhost:1", "refused"), CauseKind.OUTAGE),
        (CallFailed("Append", "localhost:1", "UNAVAILABLE", "gone"), CauseKind.OUTAGE),
        (UsageError("wrong"), CauseKind.REFUSED),
    ],
)
def test_error_of_ours_is_the_same_cause_raised_here_or_in_a_worker(
    error: WindrowError, kind: CauseKind
) -> None:
    assert cause_of(error).kind is kind
    line = f"{type(error).__module__}.{type(error).__name__}: {error}"
    told = cause_in("StreamingQueryException", FROM_A_WORKER.format(lines=line))
    assert told == cause_of(error)


def test_fenced_task_is_told_from_a_user_error_that_it_led_to() -> None:
    fenced = Fenced("shop/price", 3, 4)
    lines = (
        f"windrow.graph.delivery_errors.Fenced: {fenced}\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\nValueError: no"
    )
    assert cause_in("X", FROM_A_WORKER.format(lines=lines)).kind is CauseKind.FENCED


def test_user_error_that_only_speaks_of_fencing_is_a_failure() -> None:
    lines = "ValueError: saw windrow.graph.delivery_errors.Fenced: processor x"
    told = cause_in("X", FROM_A_WORKER.format(lines=lines))
    assert (told.kind, told.error) == (CauseKind.FAILURE, "ValueError")
    assert told.may_restart
    assert told.counts


def test_two_drivers_on_one_checkpoint_are_told_from_failures() -> None:
    told = cause_in("X", "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")
    assert told.kind is CauseKind.FENCED


def test_torn_log_names_its_file_and_the_command() -> None:
    text = "java.lang.RuntimeException: Failed to read log file file:/c/shop/price/offsets/3. Bad"
    told = cause_in("X", text)
    assert told.kind is CauseKind.TORN
    assert "offsets/3" in told.reason
    assert "windrow graph repair" in told.reason
    assert not told.may_restart


def test_unknown_text_is_one_line_without_a_secret() -> None:
    told = cause_in("Py4JJavaError", "o12.start\npostgresql://ada:hunter2@db/shop\n" + "x" * 9999)
    assert told.reason == "o12.start"
    told = cause_in("X", "no way to postgresql://ada:hunter2@db/shop " + "x" * 9999)
    assert "hunter2" not in told.reason
    assert len(told.reason) <= 500


def test_class_that_does_not_exist_is_no_cause() -> None:
    told = cause_in("X", "windrow.graph.delivery_errors.Invented: x")
    assert (told.kind, told.error) == (CauseKind.FAILURE, "X")


def test_error_of_java_is_told_by_its_innermost_cause() -> None:
    text = (
        "An error occurred while calling o77.start.\n"
        ": org.apache.spark.SparkException: outer\n\tat x.y.Z\n"
        "Caused by: java.io.IOException: no space left\n\t... 3 more\n"
    )
    assert str(cause_in("Py4JJavaError", text)) == "IOException: no space left"


def test_machine_that_is_too_busy_is_waited_for() -> None:
    text = "org.apache.spark.SparkException: Python worker failed to connect back."
    assert cause_in("X", text).kind is CauseKind.OUTAGE
