"""The two functions of a stage: what is read by columns, what is left to Spark, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.operators.arrow_stage.expressions import Column, Compare, Constant
from headrace.operators.arrow_stage.plan import Filter, Observe, StagePlan, Watermark
from headrace.operators.arrow_stage.sources import ReadRows
from headrace.operators.arrow_stage.stage import Blocks
from headrace.operators.late_rows import UTC_TIME

RECORD = pa.schema([pa.field("value", pa.int64())])
PACKED = pa.schema([pa.field("payload", pa.string())])

IS_LARGE = Compare(Column("n"), Constant(10, pa.int64()), "greater")
PLAN = StagePlan(
    source="numbers",
    columns={"n": pa.int64(), "at": UTC_TIME},
    definitions=(),
    steps=(Watermark(Column("at"), 0), Observe("sizes", (("large", IS_LARGE),)), Filter(IS_LARGE)),
    results=(("n", Column("n")),),
    schema=pa.schema([pa.field("n", pa.int64())]),
)


class Numbers:
    """Negative numbers are bad, and odd ones doubtful."""

    raw_schema = RECORD

    def read(self, records: pa.Table) -> ReadRows:
        numbers = np.asarray(records.column("value"))
        is_odd = pa.array(numbers % 2 == 1)
        doubtful = records.filter(is_odd) if numbers[numbers % 2 == 1].size else None
        return self._of(numbers[numbers % 2 == 0], doubtful)

    def read_parsed(self, parsed: pa.Table) -> ReadRows:
        return self._of(np.asarray(parsed.column("value")), None)

    def _of(self, numbers: Any, doubtful: pa.Table | None) -> ReadRows:
        good = numbers[numbers >= 0]
        rows = pa.table({"n": pa.array(good), "at": pa.array(good).cast(UTC_TIME)})
        return ReadRows(rows=rows, bad=len(numbers) - len(good), ages_ms=good * 2, doubtful=doubtful)


class Packer:
    packed = PACKED

    def __init__(self, rows_max: int = 100) -> None:
        self.rows_max = rows_max

    def pack(self, rows: pa.Table) -> pa.RecordBatch:
        return pa.record_batch([pa.array([" ".join(map(str, rows.column("n").to_pylist()))])], schema=PACKED)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (self.pack(pa.Table.from_batches([batch])) for batch in batches)


def run(*blocks: list[int], rows_max: int = 100) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    stage = Blocks(Numbers(), PLAN, Packer(rows_max))
    batches = [pa.record_batch([pa.array(each, pa.int64())], schema=RECORD) for each in blocks]
    first = pa.Table.from_batches(list(stage.first(iter(batches))), stage.first_schema)
    second = pa.Table.from_batches(list(stage.second(iter(first.to_batches()))), stage.second_schema)
    return first.to_pylist(), second.to_pylist()


def us(rows: list[dict[str, Any]]) -> list[int | None]:
    times = pa.array([row["_time"] for row in rows], UTC_TIME).cast(pa.int64())
    return times.to_pylist()  # type: ignore[no-any-return]


def test_rows_are_packed_and_reported() -> None:
    first, second = run([2, 40, 12, -4])
    assert [row["_record"] for row in first] == [None, None]
    assert [row["payload"] for row in second if row["payload"]] == ["40 12"]
    assert [row["_bad"] for row in second if row["_bad"] is not None] == [1]
    assert [row["_counts"] for row in second if row["_counts"]] == [[2]]
    assert sorted(row["_age_ms"] for row in second if row["_age_ms"] is not None) == [4, 24, 80]
    assert max(filter(None, us(second))) == 40


def test_doubtful_records_are_left_to_spark_and_packed_afterwards() -> None:
    first, second = run([2, 13, 40, 15, -3])
    assert [row["_record"] for row in first if row["_record"]] == [
        {"value": 13},
        {"value": 15},
        {"value": -3},
    ]
    assert [row["payload"] for row in second if row["payload"]] == ["40", "13 15"]
    assert sum(row["_bad"] or 0 for row in second) == 1
    assert [sum(row["_counts"]) for row in second if row["_counts"]] == [1, 2]


def test_every_packed_row_has_a_time_that_the_watermark_may_have() -> None:
    _, second = run([40, 12], [60, 14], rows_max=2)
    packed = [row for row in second if row["payload"]]
    assert all(time is not None and time <= 60 for time in us(packed))


def test_rows_that_are_filtered_out_move_the_watermark() -> None:
    _, second = run([2, 4, 6])
    assert not any(row["payload"] for row in second)
    assert us([row for row in second if row["_counts"]]) == [6]


def test_a_task_without_records_reports_nothing() -> None:
    assert run() == ([], [])


def test_rows_without_a_time_are_packed() -> None:
    stage = Blocks(Untimed(), PLAN, Packer())
    first = list(stage.first(iter([pa.record_batch([pa.array([12, 40])], schema=RECORD)])))
    (packed,) = (row for row in pa.Table.from_batches(first).to_pylist() if row["payload"])
    assert packed["payload"] == "12 40"
    assert us([packed]) == [0], "a row without a time would be dropped where the watermark is declared"


class Untimed(Numbers):
    def read(self, records: pa.Table) -> ReadRows:
        numbers = records.column("value")
        rows = pa.table({"n": numbers, "at": pa.nulls(len(numbers), UTC_TIME)})
        return ReadRows(rows=rows, bad=0, ages_ms=np.empty(0, dtype=np.int64))
