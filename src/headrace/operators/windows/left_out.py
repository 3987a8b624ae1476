"""Rows that can't be in any window: without a time, or without what the window needs besides. Seen, because counted.

The counts are in the observed metrics of a query, under `headrace.left_out:NAME`, by the reason.
"""

from __future__ import annotations

import functools
import operator
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.operators.operator import time_us
from headrace.plan_names import LEFT_OUT_METRIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIME_US_MIN = -62_135_596_800_000_000
TIME_US_END = 253_402_300_800_000_000
"""The years 1 to 9999. Outside of them a time is a slip, such as milliseconds that were taken for seconds; and to add
a window's length to the largest that Spark knows would not fit in 64 bits."""


def has_no_time(time: str) -> Column:
    at_us = time_us(time)
    return at_us.isNull() | (at_us < TIME_US_MIN) | (at_us >= TIME_US_END)


def leave_out(rows: DataFrame, reasons: Mapping[str, Column], *, name: str) -> DataFrame:
    """The rows for which none of the reasons holds; how many there were of the others is observed."""
    from pyspark.sql import functions as F

    counts = [F.count_if(reason).alias(said) for said, reason in reasons.items()]
    observed = rows.observe(f"{LEFT_OUT_METRIC}{name}:{uuid.uuid4().hex[:8]}", *counts)
    return observed.filter(~functools.reduce(operator.or_, reasons.values()))
