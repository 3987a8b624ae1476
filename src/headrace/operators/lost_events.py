"""Loss on the way to the log, as the headers of a record report it. Edges and feeds write these headers.

A record stands for one event, or for as many as `edge.received` has: a metric of a StatsD listener stands for all
packets of its window, so that the share is right for one metric, too. The other headers count events that are missing
before the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECEIVED = "edge.received"
MISSING = ("edge.dropped", "feed.dropped", "feed.missing")
"""Dropped by an edge or its kernel, dropped by a receiver of a feed, never received from a feed."""

_HEADERS = "_headers"
_HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def loss_of(rows: DataFrame) -> str | None:
    """An expression with the counts of events `received` and `missing` of a row; None for rows without headers."""
    if _HEADERS not in rows.columns or rows.schema[_HEADERS].dataType.simpleString() != _HEADERS_TYPE:
        return None
    is_received = f"each.key = '{RECEIVED}'"
    is_missing = f"each.key in {MISSING}"
    received = f"if(exists({_HEADERS}, each -> {is_received}), {_sum(is_received)}, 1L)"
    counts = f"named_struct('received', {received}, 'missing', {_sum(is_missing)})"
    return f"if({_HEADERS} is null, named_struct('received', 1L, 'missing', 0L), {counts})"


def _sum(condition: str) -> str:
    """Of the headers' numbers. A header that is no number counts as 0."""
    number = "greatest(coalesce(try_cast(string(each.value) as bigint), 0L), 0L)"
    return f"aggregate(filter({_HEADERS}, each -> {condition}), 0L, (total, each) -> total + {number})"
