"""Names by which operators, sources and jobs find each other in a Spark plan and in the progress of its query.

Operators put them there, jobs look for them. Some of them are in checkpoints: changing one breaks running jobs.
This module imports neither Spark nor the operators.
"""

from __future__ import annotations

import json

from msgspec import Struct
from msgspec.structs import asdict

# Metadata of columns.

EVENT_TIME = "headrace.event_time"
"""The column holds the event time, in bounded and streaming DataFrames alike."""

BATCH_WATERMARK = "headrace.batch_watermark"
"""The job fills the column with the watermark of the batch, which Spark's own windows don't know."""

EMITTED_TIME = "headrace.emitted_time"
"""How the operator before emits the rows of this event-time column (`operators.emitted_times`)."""

CHANGELOG = "headrace.changelog"
"""On the column `op`: the rows are a changelog."""

WATERMARK_DELAY = "spark.watermarkDelayMs"
"""Spark sets it for a column with a watermark, and for windows over such a column."""

# Aliases of plan nodes.

OPERATOR_ALIAS = "headrace.operator:"
"""Prefix of the alias by which a stateful operator describes itself; an `OperatorMark` follows as JSON."""

COLUMNS_ALIAS = "headrace.columns:"
"""Prefix of the alias around the columns of a source, from which operators can be evaluated on Arrow columns; the id of
the source follows."""

APPEND_ALIAS = "headrace.append:"
"""Prefix of the alias of rows that have another plan for the output mode `append`; its id follows."""

MERGE_ALIAS = "headrace.merge:"
"""Prefix of the alias of merged sources; the policy of their watermarks follows."""

# Observed metrics: prefixes of their names, and the names of their values.

BAD_METRIC = "headrace.bad:"
"""Of a source; its id follows."""
BAD = "bad"
"""Records that could not be parsed."""
SKEW = "skew_ms"
"""Percentiles of processing time minus event time."""

LATE_METRIC = "headrace.late:"
"""Of an operator with windows; its name and an id follow."""
LATE = "late"
"""Rows dropped as late, once for each window."""
WINDOW_ROWS = "rows"
"""All rows, once for each window."""
CORRECTED = "corrected"
"""Rows that arrived after the on-time pane and were added to their window."""
ALARM_ABOVE = "alarm_above"
"""The share of late rows above which a warning is logged."""

KEYS_METRIC = "headrace.keys:"
"""Of an operator with keyed state; its name and an id follow."""
KEY_COUNTS = "counts"
"""The most frequent keys of each part of the batch (`state/hot_keys.py`), a list of JSON texts."""
WORK_METRIC = "headrace.work:"
"""Of the same operator, with the same name and id."""
WORK_TIMES = "times"
"""The buckets and the microseconds of work on them, a list of texts such as 3:1500."""

SKIPPED_METRIC = "headrace.left_out:"
"""Of a window; its name and an id follow. Its values count rows that fit no window, one value for each reason."""

_USE = "@"


def metric_of_use(metric: str, use: str) -> str:
    """The name of a metric of a source, or of a step above it, in one of several stages that read the source."""
    return f"{metric}{_USE}{use}"


def metric_without_use(name: str) -> str:
    return name.partition(_USE)[0]


# Columns.

RECORD_COLUMNS = ("_key", "_headers", "_topic", "_partition", "_offset", "_timestamp")
"""The columns that `read_topic` adds: the record of the row."""

FAILED_ROW = "_failed"
"""The column of rows on which an expression failed: JSON with the `reason` and the `row`; null for all other rows. The
writer of the sink makes each a dead letter, and keeps it only if it is a delete."""

CHANGE_TIME = "_change_ts"
"""In rows of changes: the time of the change in the database."""

# Local properties of Spark.

LATE_ROWS_FOLDER = "headrace.late_rows.folder"
"""Set in the thread that starts a query: a folder that driver and executors share."""

STATE_COPIES_FOLDER = "headrace.state_copies.folder"
"""The same, for the copies of the state from which a job answers questions."""

CHECKPOINT_FOLDER = "headrace.checkpoint.folder"
"""The same: the checkpoint of the query, where tasks read the watermark of their batch."""


class OperatorMark(Struct, frozen=True, kw_only=True):
    """A stateful operator of Headrace in a plan."""

    operator: str
    kept_for: str
    """everything that its state depends on"""
    owner: str
    late_topic: str | None
    """where its late rows go, if they are kept"""

    def to_alias(self) -> str:
        return OPERATOR_ALIAS + json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_alias(cls, alias: str) -> OperatorMark:
        return cls(**json.loads(alias.removeprefix(OPERATOR_ALIAS)))
