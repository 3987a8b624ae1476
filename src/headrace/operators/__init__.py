"""Operators: DataFrame in, DataFrame out, on Spark.

    from headrace import operators as op

    per_minute = clicks.transform(op.Tumbling("1 minute", by="url", aggregate={"n": "count(*)"}))

Each operator is an immutable value whose constructor validates its fields. On a bounded DataFrame, an operator returns
the rows that the stream ends with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.operators.approximation.approximate import Approximate
    from headrace.operators.approximation.frequency import Frequency
    from headrace.operators.approximation.sample import Sample
    from headrace.operators.approximation.seen import Seen
    from headrace.operators.approximation.streaming_kmeans import StreamingKMeans
    from headrace.operators.approximation.top import TopN
    from headrace.operators.clocks import CorrectClock
    from headrace.operators.compare_with import CompareWith
    from headrace.operators.join_tables import How, JoinTables
    from headrace.operators.joins.enrich import AsOf, Enrich
    from headrace.operators.joins.join_window import JoinWindow
    from headrace.operators.joins.join_within import JoinWithin
    from headrace.operators.late import Correct, DropLate, SideOutput
    from headrace.operators.merge import Merge, Policy
    from headrace.operators.operator import BadOperator, Duration, Operator
    from headrace.operators.patterns.absence import Absence
    from headrace.operators.patterns.match_recognize import MatchRecognize
    from headrace.operators.patterns.row_pattern import RowPattern
    from headrace.operators.search.search_queries import SearchQueries
    from headrace.operators.spark_columns import Aggregates
    from headrace.operators.state.inspect import read_state
    from headrace.operators.tables.changelog import Changelog
    from headrace.operators.tables.group_changes import GroupChanges
    from headrace.operators.tables.newest import Newest
    from headrace.operators.triggers import (
        AfterAll,
        AfterAny,
        AfterCount,
        AfterDelay,
        AfterEach,
        Once,
        Panes,
        Repeatedly,
        Trigger,
    )
    from headrace.operators.windows.clock import Hopping, Sampling, Tumbling
    from headrace.operators.windows.counting import Counting
    from headrace.operators.windows.gaps import PerRow
    from headrace.operators.windows.processing_time import PROCESSING_TIME
    from headrace.operators.windows.session import Session
    from headrace.operators.windows.sliding import Sliding
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "approximation.approximate": ("Approximate",),
            "approximation.frequency": ("Frequency",),
            "approximation.sample": ("Sample",),
            "approximation.seen": ("Seen",),
            "approximation.streaming_kmeans": ("StreamingKMeans",),
            "approximation.top": ("TopN",),
            "clocks": ("CorrectClock",),
            "compare_with": ("CompareWith",),
            "join_tables": ("How", "JoinTables"),
            "joins.enrich": ("AsOf", "Enrich"),
            "joins.join_window": ("JoinWindow",),
            "joins.join_within": ("JoinWithin",),
            "late": ("Correct", "DropLate", "SideOutput"),
            "merge": ("Merge", "Policy"),
            "operator": ("BadOperator", "Duration", "Operator"),
            "search.search_queries": ("SearchQueries",),
            "patterns.absence": ("Absence",),
            "patterns.match_recognize": ("MatchRecognize",),
            "patterns.row_pattern": ("RowPattern",),
            "spark_columns": ("Aggregates",),
            "state.inspect": ("read_state",),
            "tables.changelog": ("Changelog",),
            "tables.group_changes": ("GroupChanges",),
            "tables.newest": ("Newest",),
            "triggers": (
                "AfterAll",
                "AfterAny",
                "AfterCount",
                "AfterDelay",
                "AfterEach",
                "Once",
                "Panes",
                "Repeatedly",
                "Trigger",
            ),
            "windows.clock": ("Hopping", "Sampling", "Tumbling"),
            "windows.counting": ("Counting",),
            "windows.gaps": ("PerRow",),
            "windows.processing_time": ("PROCESSING_TIME",),
            "windows.session": ("Session",),
            "windows.sliding": ("Sliding",),
        },
    )

__all__ = [
    "PROCESSING_TIME",
    "Absence",
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterDelay",
    "AfterEach",
    "Aggregates",
    "Approximate",
    "AsOf",
    "BadOperator",
    "Changelog",
    "CompareWith",
    "Correct",
    "CorrectClock",
    "Counting",
    "DropLate",
    "Duration",
    "Enrich",
    "Frequency",
    "GroupChanges",
    "Hopping",
    "How",
    "JoinTables",
    "JoinWindow",
    "JoinWithin",
    "MatchRecognize",
    "Merge",
    "Newest",
    "Once",
    "Operator",
    "Panes",
    "PerRow",
    "Policy",
    "Repeatedly",
    "RowPattern",
    "Sample",
    "Sampling",
    "SearchQueries",
    "Seen",
    "Session",
    "SideOutput",
    "Sliding",
    "StreamingKMeans",
    "TopN",
    "Trigger",
    "Tumbling",
    "read_state",
]
