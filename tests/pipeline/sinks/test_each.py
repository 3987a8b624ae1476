"""A function for every row or batch: at least once, with the batch's identity in hand."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.each import Each
from headrace.pipeline.sinks.sink import RejectedRow

FENCE = Fence(job="mailing", checkpoint="c-1", batch_id=7)
ROWS = pyarrow.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
SCHEMA = from_arrow_schema(ROWS.schema)


def apply(sink: Each, rows: pyarrow.Table = ROWS) -> tuple[int, list[RejectedRow]]:
    rejected: list[RejectedRow] = []
    written = sink.open("mailing", SCHEMA).apply(rows.to_batches(max_chunksize=2), FENCE, rejected.extend)
    return written, rejected


def test_every_row_reaches_the_function_with_its_batch() -> None:
    seen: list[tuple[dict[str, Any], Fence]] = []
    assert apply(Each(lambda row, batch: seen.append((row, batch)))) == (3, [])
    assert [row for row, _ in seen] == ROWS.to_pylist()
    assert {batch for _, batch in seen} == {FENCE}


def test_a_batch_reaches_the_function_whole() -> None:
    seen: list[pyarrow.Table] = []
    assert apply(Each(lambda table, batch: seen.append(table), per="batch")) == (3, [])
    assert [table.to_pylist() for table in seen] == [ROWS.to_pylist()]


def test_row_for_which_the_function_raises_is_rejected_and_the_others_are_written() -> None:
    def send(row: dict[str, Any], batch: Fence) -> None:
        if row["id"] == 2:
            raise ValueError("no such address")

    assert apply(Each(send)) == (
        2,
        [RejectedRow(row={"id": 2, "name": "b"}, reason="ValueError: no such address")],
    )


def test_try_again_fails_the_batch_instead_of_rejecting_the_row() -> None:
    def send(row: dict[str, Any], batch: Fence) -> None:
        raise SinkUnavailable("the server does not respond")

    with pytest.raises(SinkUnavailable, match="the server does not respond"):
        apply(Each(send))


def test_more_rejections_than_allowed_fail_the_batch_before_any_row_is_given_up() -> None:
    def send(row: dict[str, Any], batch: Fence) -> None:
        raise ConnectionError("rejected")

    rejected: list[RejectedRow] = []
    writer = Each(send, rejected_rows_max=2).open("mailing", SCHEMA)
    with pytest.raises(HeadraceError, match="ConnectionError: rejected"):
        writer.apply(ROWS.to_batches(), FENCE, rejected.extend)
    assert rejected == []


def test_a_function_that_raises_for_a_batch_fails_the_batch() -> None:
    def store(table: pyarrow.Table, batch: Fence) -> None:
        raise OSError("disk is full")

    with pytest.raises(OSError, match="disk is full"):
        apply(Each(store, per="batch"))


def test_guarantee_is_at_least_once_and_no_batch_is_applied() -> None:
    sink = Each(print)
    writer = sink.open("mailing", SCHEMA)
    writer.apply(ROWS.to_batches(), FENCE, lambda rows: None)
    assert sink.guarantee == "at-least-once"
    assert writer.applied() is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"per": "table"}, "per='table'"), ({"rejected_rows_max": -1}, "below 0")],
)
def test_wrong_option_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSink, match=message):
        Each(print, **arguments)
