"""Rows that belong to no window, because their time or another value is missing or invalid: they are skipped and
counted.

The counts are in the observed metrics of a query, under `headrace.left_out:NAME`, by reason.
"""

from __future__ import annotations

import functools
import operator
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.operators.operator import time_us
from headrace.plan_names import SKIPPED_METRIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIME_US_MIN = -62_135_596_800_000_000
TIME_US_END = 253_402_300_800_000_000
"""The years 1 to 9999. A time outside this range is a mistake, such as milliseconds read as seconds. Spark's largest
times plus the length of a window also do not fit in 64 bits."""


def has_no_time(time: str) -> Column:
    at_us = time_us(time)
    return at_us.isNull() | (at_us < TIME_US_MIN) | (at_us >= TIME_US_END)


def is_before_1970(time: str) -> Column:
    """The watermark of a stream starts at 1970, and Spark never moves it back: a window before it would be late from
    the beginning, or never closed."""
    return time_us(time) < 0


def skip_rows(rows: DataFrame, reasons: Mapping[str, Column], *, name: str) -> DataFrame:
    """The rows to which no reason applies. An observed metric counts the skipped rows by reason."""
    from pyspark.sql import functions as F

    counts = [F.count_if(condition).alias(reason) for reason, condition in reasons.items()]
    observed = rows.observe(f"{SKIPPED_METRIC}{name}:{uuid.uuid4().hex[:8]}", *counts)
    return observed.filter(~functools.reduce(operator.or_, reasons.values()))
