"""Operators: DataFrame in, DataFrame out, on Spark.

    from headrace import operators as op

    per_minute = clicks.transform(op.Tumbling("1 minute", by="url", aggregate={"n": "count(*)"}))

Each is a frozen value that checks itself when it is made. The same operator on a bounded DataFrame gives the rows that
the stream gives in the end.
"""

from headrace.operators.clocks import CorrectClock
from headrace.operators.compare_with import CompareWith
from headrace.operators.join_tables import JoinTables
from headrace.operators.joins.enrich import Enrich
from headrace.operators.joins.join_within import JoinWithin
from headrace.operators.late import Correct, DropLate, SideOutput
from headrace.operators.merge import Merge
from headrace.operators.operator import BadOperator, Operator
from headrace.operators.tables.changelog import Changelog
from headrace.operators.tables.group_changes import GroupChanges
from headrace.operators.tables.newest import Newest
from headrace.operators.triggers import Trigger
from headrace.operators.windows.counting import Counting
from headrace.operators.windows.gaps import PerRow
from headrace.operators.windows.hopping import Hopping
from headrace.operators.windows.processing_time import PROCESSING_TIME
from headrace.operators.windows.sampling import Sampling
from headrace.operators.windows.session import Session
from headrace.operators.windows.sliding import Sliding
from headrace.operators.windows.tumbling import Tumbling

__all__ = [
    "PROCESSING_TIME",
    "BadOperator",
    "Changelog",
    "CompareWith",
    "Correct",
    "CorrectClock",
    "Counting",
    "DropLate",
    "Enrich",
    "GroupChanges",
    "Hopping",
    "JoinTables",
    "JoinWithin",
    "Merge",
    "Newest",
    "Operator",
    "PerRow",
    "Sampling",
    "Session",
    "SideOutput",
    "Sliding",
    "Trigger",
    "Tumbling",
]
