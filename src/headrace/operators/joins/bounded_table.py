"""Enrichment of a stream from a bounded table, as Spark's join of a stream with a static DataFrame: without state.

Spark evaluates the table again for every micro-batch. Each version of an entry is valid from its time until the time of
the next one, so a row matches at most one version.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from headrace.operators.operator import any_null, column, time_us
from headrace.operators.windows.skipped_rows import has_no_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PREFIX = "__table_"


def versions_of(
    table: DataFrame,
    keys: Sequence[str],
    added: Sequence[str],
    *,
    since_us: Column,
    sequence: Column,
    is_deleted: Column,
) -> DataFrame:
    """The versions of all entries, with the times between which they are valid. The last one of a key has no end."""
    numbered = [*_numbered("k", keys), *_numbered("r", added)]
    known = table.filter(~any_null(keys)).select(
        *numbered,
        since_us.alias(f"{_PREFIX}since"),
        sequence.alias(f"{_PREFIX}seq"),
        is_deleted.alias(f"{_PREFIX}deleted"),
    )
    since, until = F.col(f"{_PREFIX}since"), F.col(f"{_PREFIX}until")
    by_key = Window.partitionBy(*_names("k", keys)).orderBy(since, F.col(f"{_PREFIX}seq"))
    # Of several changes at one time, only the last is a version.
    return known.withColumn(f"{_PREFIX}until", F.lead(since).over(by_key)).filter(
        ~F.col(f"{_PREFIX}deleted") & (until.isNull() | (until > since))
    )


def joined(
    rows: DataFrame,
    versions: DataFrame,
    keys: Sequence[str],
    called: Sequence[str],
    *,
    time: str | None,
    drops_unmatched: bool,
) -> DataFrame:
    """The rows with the version that is valid at their time, or with the last one if there is no time column.

    `keys` are columns of the rows, `called` the names of the added columns in the result.
    """
    parts = [column(here) == F.col(there) for here, there in zip(keys, _names("k", keys), strict=True)]
    since, until = F.col(f"{_PREFIX}since"), F.col(f"{_PREFIX}until")
    if time is None:
        versions = versions.filter(until.isNull())
    else:
        at_us = time_us(time)
        parts += [~has_no_time(time), at_us >= since, until.isNull() | (at_us < until)]
    found = rows.join(
        versions, functools.reduce(operator.and_, parts), "inner" if drops_unmatched else "left"
    )
    results = [F.col(there).alias(name) for there, name in zip(_names("r", called), called, strict=True)]
    return found.select(*map(column, rows.columns), *results)


def _names(prefix: str, columns: Sequence[str]) -> list[str]:
    return [f"{_PREFIX}{prefix}{number}" for number in range(len(columns))]


def _numbered(prefix: str, columns: Sequence[str]) -> list[Column]:
    """The columns under names that can't clash, without a declaration of event time."""
    return [
        column(name).alias(called, metadata={})
        for name, called in zip(columns, _names(prefix, columns), strict=True)
    ]
