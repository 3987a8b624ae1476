"""Failures of jobs: which are retried, and how they are reported."""

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
        ConnectionRefusedError("the JVM does not respond"),
    ],
)
def test_permanent_failures_are_not_retried(error: Exception) -> None:
    assert failures.is_permanent(error)


@pytest.mark.parametrize(
    "error",
    [SinkUnavailable("unavailable"), OSError("disk"), StreamingQueryException(NO_SPACE), ValueError("a row")],
)
def test_other_failures_are_retried(error: Exception) -> None:
    assert not failures.is_permanent(error)


def test_failure_is_reported_in_one_line_with_its_deepest_cause() -> None:
    assert failures.in_short(StreamingQueryException(NO_SPACE)) == (
        "StreamingQueryException: IOException: No space left on device"
    )
    assert failures.in_short(SinkUnavailable("the database is unavailable", hint="start it")) == (
        "the database is unavailable (start it)"
    )
    assert failures.in_short(ValueError("first line\nsecond line")) == "ValueError: first line"
    assert failures.in_short(KeyError()) == "KeyError"


def test_failure_of_a_query_is_reported_without_its_ids() -> None:
    text = "[STREAM_FAILED] Query [id = 1a, runId = 2b] terminated with exception: None.get SQLSTATE: XXKST"
    assert failures.in_short(StreamingQueryException(text)) == "StreamingQueryException: None.get"


IN_WORKER = """
  An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "decoding.py", line 1, in decode
    raise error
ConnectionError: refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
headrace.registered.errors.RegistryUnavailable: no schema registry answers at http://127.0.0.1:1 (start it)

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""


def test_failure_in_a_python_worker_is_reported_with_its_last_error() -> None:
    assert failures.in_short(StreamingQueryException(IN_WORKER)) == (
        "StreamingQueryException: RegistryUnavailable: no schema registry answers at http://127.0.0.1:1 (start it)"
    )


NO_COLUMN = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `ulr` cannot be "
    "resolved. Did you mean one of the following? [`url`, `user`]. SQLSTATE: 42703; line 1 pos 0;\n"
    "'Filter 'ulr LIKE x\n+- Project [user#1, url#2]\n"
)
NOTHING_NEAR = (
    "[UNRESOLVED_COLUMN.WITHOUT_SUGGESTION] A column, variable, or function parameter with name `a`.`b` "
    "cannot be resolved. SQLSTATE: 42703"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NO_COLUMN, "there is no column ulr; the nearest are url, user"),
        (NOTHING_NEAR, "there is no column a.b"),
    ],
)
def test_missing_column_is_reported_with_the_nearest_names_and_without_the_plan(text: str, line: str) -> None:
    assert failures.has_plan(AnalysisException(text))
    assert failures.in_short(AnalysisException(text)) == line


def test_line_has_a_maximum_length() -> None:
    assert len(failures.in_short(ValueError("x" * 10_000))) == failures.LINE_LENGTH_MAX


def test_hint_for_damaged_state_is_a_rebuild() -> None:
    error = StreamingQueryException("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred")
    assert "--rebuild" in failures.hint(error)
    assert failures.hint(ValueError("x")) == ""
