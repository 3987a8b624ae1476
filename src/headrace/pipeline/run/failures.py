"""Failures of jobs: which of them are permanent, and how to describe one in a line."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadJob

LINE_LENGTH_MAX = 500
"""Spark's messages contain whole plans; the rest is in Spark's log."""

_STATE_LOST = re.compile(r"CANNOT_LOAD_STATE_STORE|STATE_STORE_.*SCHEMA|STATE_STORE_PROVIDER_DOES_NOT")
_SPARK_GONE = re.compile(
    r"SparkContext (was|has been) (stopped|shut down)|stopped SparkContext", re.IGNORECASE
)
_JAVA_NAME = re.compile(r"^(?:[a-z][\w$]*\.)+([A-Z][\w$]*)(?::\s*|$)")
_QUERY = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ")
_NO_COLUMN = re.compile(
    r"\[UNRESOLVED_COLUMN\.\w+\].*? with name (.+?) cannot be resolved"
    r"(?:\. Did you mean one of the following\? \[(.*?)\])?"
)
_SQL_STATE = re.compile(r"\.? SQLSTATE: \w+(?:; line \d+ pos \d+)?;?$")
_CAUSED_BY = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"


def is_permanent(error: BaseException) -> bool:
    """Whether the job would fail in the same way again."""
    from py4j.protocol import Py4JNetworkError
    from pyspark.errors import AnalysisException

    if isinstance(error, (BadJob, AnalysisException, Py4JNetworkError, ConnectionRefusedError)):
        return True
    text = str(error)
    return bool(_STATE_LOST.search(text) or _SPARK_GONE.search(text))


def has_plan(error: BaseException) -> bool:
    """Whether Spark could not analyze a DataFrame: the message has all of its plan."""
    from pyspark.errors import AnalysisException

    return isinstance(error, AnalysisException)


def hint(error: BaseException) -> str:
    if isinstance(error, HeadraceError):
        return error.hint
    if _STATE_LOST.search(str(error)):
        return "the state under the checkpoint is damaged: `--rebuild` clears the target and replays from the start"
    return ""


def in_short(error: BaseException) -> str:
    """The failure in one line."""
    if isinstance(error, HeadraceError):
        return str(error)[:LINE_LENGTH_MAX]
    text = str(error).strip()
    if (no_column := _NO_COLUMN.search(text)) is not None:
        name, near = (part and part.replace("`", "") for part in no_column.groups())
        return f"there is no column {name}" + (f"; the nearest are {near}" if near else "")
    causes = _CAUSED_BY.findall(text)
    line = (
        (causes and causes[-1])
        or _raised_in_worker(text)
        or next((each.strip() for each in text.splitlines() if each.strip()), "")
    )
    line = _SQL_STATE.sub("", _JAVA_NAME.sub(r"\1: ", _QUERY.sub("", line)))
    name = type(error).__name__
    return f"{name}: {line}"[:LINE_LENGTH_MAX] if line else name


def _raised_in_worker(text: str) -> str:
    """The error below the last traceback of one of Spark's Python workers."""
    _, found, below = text.rpartition(_TRACEBACK)
    lines = below.splitlines() if found else []
    return next((each for each in lines if each and not each[0].isspace()), "")
