"""Failures of jobs: which are tried again, and how they are told."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from headrace.pipeline.errors import BadJob, BadSink, SinkUnavailable
from headrace.pipeline.run import failures

NO_SPACE = """[STREAM_FAILED] Query [id = 1a, runId = 2b] terminated with exception: No space left SQLSTATE: XXKST
=== Streaming Query ===
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"""


@pytest.mark.parametrize(
    "error",
    [
        BadSink("no such column"),
        BadJob("another plan"),
        AnalysisException("UNRESOLVED_COLUMN"),
        StreamingQueryException(
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."
        ),
        RuntimeError("Cannot call methods on a stopped SparkContext."),
        ConnectionRefusedError("the JVM does not answer"),
    ],
)
def test_what_would_fail_again_in_the_same_way_is_not_tried_again(error: Exception) -> None:
    assert failures.is_permanent(error)


@pytest.mark.parametrize(
    "error",
    [SinkUnavailable("away"), OSError("disk"), StreamingQueryException(NO_SPACE), ValueError("a row")],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert not failures.is_permanent(error)


def test_failure_is_told_in_one_line_with_its_deepest_cause() -> None:
    assert failures.in_short(StreamingQueryException(NO_SPACE)) == (
        "StreamingQueryException: IOException: No space left on device"
    )
    assert failures.in_short(SinkUnavailable("the database is away", hint="start it")) == (
        "the database is away (start it)"
    )
    assert failures.in_short(ValueError("first line\nsecond line")) == "ValueError: first line"
    assert failures.in_short(KeyError()) == "KeyError"


def test_query_that_failed_without_a_cause_is_told_without_its_numbers() -> None:
    text = "[STREAM_FAILED] Query [id = 1a, runId = 2b] terminated with exception: None.get SQLSTATE: XXKST"
    assert (
        failures.in_short(StreamingQueryException(text))
        == "StreamingQueryException: None.get SQLSTATE: XXKST"
    )


def test_line_ends_somewhere() -> None:
    assert len(failures.in_short(ValueError("x" * 10_000))) == failures.LINE_LENGTH_MAX


def test_damaged_state_comes_with_the_way_out() -> None:
    error = StreamingQueryException("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred")
    assert "--rebuild" in failures.hint(error)
    assert failures.hint(ValueError("x")) == ""
