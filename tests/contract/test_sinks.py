"""The contract of sinks: what each of them promises, whatever it writes to."""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from headrace.pipeline.sinks.sink import RejectedRow
from tests.contract.sink_contract import CASES, SCHEMA, Bench, Lab, fence, find_cases, in_order, row

CHANGES = StructType([StructField("op", StringType()), *SCHEMA.fields])
CHANGES_IN_ORDER = StructType([*CHANGES.fields, StructField("_offset", LongType())])
TEXTS = [
    "",
    " ",
    "Ünïcödé",
    "日本語",
    "👩‍👩‍👧",
    'quoted "twice"',
    "it's",
    "a,b;c\td",
    "line\nbreak\r\n",
    "\\.",
    "\\N",
    "a\n\\.\nb",
    "null",
]


@pytest.fixture(params=find_cases())
def bench(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        lab = Lab(
            spark=spark,
            folder=tmp_path,
            request=request,
            name=f"contract-{uuid.uuid4().hex[:12]}",
            stack=stack,
        )
        bench = Bench(spark=spark, case=CASES[request.param](lab))
        stack.callback(bench.reopen)
        yield bench


@pytest.fixture
def keyed(bench: Bench) -> Bench:
    if not bench.case.is_keyed:
        pytest.skip("this sink has no keys")
    return bench


@pytest.fixture
def fenced(bench: Bench) -> Bench:
    if not bench.case.is_fenced:
        pytest.skip("this sink keeps no fence")
    return bench


@pytest.fixture
def rejecting(bench: Bench) -> Bench:
    if bench.case.rejected is None:
        pytest.skip("this sink accepts every row")
    return bench


def test_target_has_the_rows_of_a_batch(bench: Bench) -> None:
    rows = [row("a", 1, "one"), row("b", 2)]
    assert bench.write(rows, 0) == 2
    assert bench.rows() == in_order(rows)


def test_target_is_the_same_text_for_the_same_target(bench: Bench) -> None:
    assert bench.case.sink().target() == bench.case.sink().target() != ""


def test_same_batch_again_changes_nothing(fenced: Bench) -> None:
    fenced.write([row("a", 1)], 0)
    fenced.write([row("b", 2)], 1)
    assert fenced.write([row("a", 3), row("c", 3)], 1) == 0
    assert fenced.rows() == in_order([row("a", 1), row("b", 2)])


def test_batch_before_the_last_one_changes_nothing(fenced: Bench) -> None:
    fenced.write([row("a", 1)], 4)
    assert fenced.write([row("b", 2)], 3) == 0
    assert fenced.rows() == [row("a", 1)]


def test_target_keeps_the_fence_with_its_offsets(fenced: Bench) -> None:
    assert fenced.writer().applied() is None
    fenced.write([row("a", 1)], 0)
    fenced.write([row("b", 2)], 1)
    assert fenced.writer().applied() == fence(1)


def test_fence_outlives_the_writer(fenced: Bench) -> None:
    fenced.write([row("a", 1)], 0)
    fenced.reopen()
    assert fenced.writer().applied() == fence(0)
    assert fenced.write([row("b", 2)], 0) == 0
    fenced.write([row("c", 3)], 1)
    assert fenced.rows() == in_order([row("a", 1), row("c", 3)])


def test_batch_0_of_a_new_checkpoint_is_written(fenced: Bench) -> None:
    fenced.write([row("a", 1)], 0)
    fenced.write([row("b", 2)], 1)
    fenced.write([row("c", 3)], 0, checkpoint="second")
    assert fenced.rows() == in_order([row("a", 1), row("b", 2), row("c", 3)])
    assert fenced.writer().applied() == fence(0, checkpoint="second")
    assert fenced.write([row("d", 4)], 0, checkpoint="second") == 0


def test_jobs_that_share_a_target_have_a_fence_each(fenced: Bench) -> None:
    fenced.write([row("a", 1)], 3, job="one")
    fenced.write([row("b", 2)], 0, job="two")
    assert fenced.rows() == in_order([row("a", 1), row("b", 2)])
    assert fenced.writer("one").applied() == fence(3, job="one")
    assert fenced.writer("two").applied() == fence(0, job="two")


def test_empty_batch_writes_the_fence_and_no_row(fenced: Bench) -> None:
    assert fenced.write([], 0) == 0
    assert fenced.rows() == []
    fenced.write([row("a", 1)], 1)
    fenced.write([], 2)
    assert fenced.writer().applied() == fence(2)
    assert fenced.rows() == [row("a", 1)]


def test_sink_without_a_fence_declares_it_and_repeats_a_batch(bench: Bench) -> None:
    if bench.case.is_fenced:
        pytest.skip("this sink keeps a fence")
    assert bench.case.sink().guarantee == "at-least-once"
    for _ in range(2):
        assert bench.write([row("a", 1), row("b", 2)], 0) == 2
        assert bench.writer().applied() is None
    assert bench.rows() == in_order([row("a", 1), row("b", 2)])
    bench.write([], 1)
    assert bench.rows() == in_order([row("a", 1), row("b", 2)])


def test_nulls_and_any_text_are_stored(bench: Bench) -> None:
    rows = [row(f"k{place}", None, text) for place, text in enumerate(TEXTS)]
    rows += [row(text, place) for place, text in enumerate(TEXTS) if text.strip()]
    rows += [row("nothing", None, None), row("most", 2**63 - 1), row("least", -(2**63))]
    bench.write(rows, 0)
    assert bench.rejected == []
    assert bench.rows() == in_order(rows)


TYPES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-(2**15), 2**15 - 1],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1],
    "FLOAT": [1.5, -3.4028234663852886e38],
    "DOUBLE": [0.1, math.inf],
    "DECIMAL(9,2)": [Decimal("1234567.89"), Decimal("-0.01")],
    "DECIMAL(38,10)": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")],
    "STRING": ["text", ""],
    "BINARY": [b'\x00\xff\\,"\n', b""],
    "DATE": [date(2026, 11, 15), date(1969, 7, 20)],
    "TIMESTAMP": [
        datetime(2026, 11, 15, 13, 59, 0, 123456, tzinfo=UTC),
        datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC),
    ],
    "TIMESTAMP_NTZ": [
        datetime.fromisoformat("2026-03-29 02:30"),
        datetime.fromisoformat("2026-01-01 00:00:00.000001"),
    ],
    "INTERVAL DAY TO SECOND": [timedelta(days=3, microseconds=1), timedelta(hours=-1)],
    "ARRAY<INT>": [[1, None, 3], []],
    "MAP<STRING,BIGINT>": [{"a": 1, "b": None}, {}],
    "STRUCT<x: INT, y: ARRAY<STRING>>": [{"x": 1, "y": ["ü"]}, {"x": None, "y": None}],
}


def test_every_type_is_stored(bench: Bench) -> None:
    types = [kind for kind in TYPES if kind not in bench.case.left_out]
    schema = StructType([StructField("id", StringType())])
    for i, kind in enumerate(types):
        schema = schema.add(f"c{i}", DataType.fromDDL(kind))
    rows = [
        {"id": name, **{f"c{i}": TYPES[kind][which] for i, kind in enumerate(types)}}
        for which, name in enumerate(("a", "b"))
    ]
    rows.append({"id": "nulls", **{f"c{i}": None for i in range(len(types))}})
    bench.write(bench.frame(rows, schema), 0)
    assert bench.rejected == []
    assert bench.rows(schema) == in_order(rows)


def test_batch_of_many_partitions_is_written_whole(bench: Bench) -> None:
    many = bench.spark.range(0, 25_000, numPartitions=4).selectExpr(
        "'k' || id AS id", "id AS n", "NULL AS note"
    )
    many = many.select(*(F.col(field.name).cast(field.dataType) for field in SCHEMA))
    bench.write(many, 0)
    assert sum(each["n"] for each in bench.rows()) == sum(range(25_000))


def test_row_replaces_the_row_of_its_key(keyed: Bench) -> None:
    keyed.write([row("a", 1, "old"), row("b", 1)], 0)
    keyed.write([row("a", 2)], 1)
    assert keyed.rows() == in_order([row("a", 2), row("b", 1)])


def test_of_several_rows_of_a_key_one_is_left(keyed: Bench) -> None:
    keyed.write([row("a", 1), row("b", 1), row("a", 1)], 0)
    assert keyed.rows() == in_order([row("a", 1), row("b", 1)])


def test_deletions_delete_rows(keyed: Bench) -> None:
    if not keyed.case.has_deletes:
        pytest.skip("this sink deletes nothing")
    first = [
        {"op": op, **row(id, 1)} for op, id in (("c", "a"), ("r", "b"), ("+", "c"), ("u", "d"), (None, "e"))
    ]
    keyed.write(keyed.frame(first, CHANGES), 0)
    assert [each["id"] for each in keyed.rows()] == ["a", "b", "c", "d", "e"]
    second = [
        {"op": "d", **row("a")},
        {"op": "-", **row("b")},
        *({"op": op, **row("c", n)} for op, n in (("-", 1), ("+", 2))),
        {"op": "d", **row("never there")},
    ]
    keyed.write(keyed.frame(second, CHANGES), 1)
    assert keyed.rows() == in_order([row("c", 2), row("d", 1), row("e", 1)])


def test_last_row_in_offsets_wins(keyed: Bench) -> None:
    if not keyed.case.has_deletes:
        pytest.skip("this sink deletes nothing")
    changes = [
        {"op": "u", **row("a", 2), "_offset": 11},
        {"op": "c", **row("a", 1), "_offset": 10},
        {"op": "d", **row("b"), "_offset": 13},
        {"op": "c", **row("b", 1), "_offset": 12},
    ]
    keyed.write(keyed.frame(changes, CHANGES_IN_ORDER), 0)
    assert keyed.rows() == [row("a", 2)]


def test_rejected_row_is_reported_and_the_others_are_written(rejecting: Bench) -> None:
    assert rejecting.case.rejected is not None
    good = [row(f"k{i}", i) for i in range(100)]
    rejecting.write([*good[:40], rejecting.case.rejected, *good[40:]], 0)
    assert rejecting.rows() == in_order(good)
    (letter,) = rejecting.rejected
    assert {name: letter.row[name] for name in SCHEMA.names} == rejecting.case.rejected
    assert letter.reason
    if rejecting.case.is_fenced:
        assert rejecting.write([row("later", 1)], 0) == 0


def test_rejected_row_is_reported_before_the_others_are_visible(rejecting: Bench) -> None:
    assert rejecting.case.rejected is not None
    if not rejecting.case.is_atomic:
        pytest.skip("this sink shows the rows of an incomplete batch")
    seen: list[object] = []

    def reject(rows: Sequence[RejectedRow]) -> None:
        seen.append(rejecting.rows())

    rejecting.write([row("a", 1), rejecting.case.rejected], 0, reject=reject)
    assert seen == [[]]
    assert rejecting.rows() == [row("a", 1)]


def test_crash_while_a_rejected_row_is_reported_loses_nothing(rejecting: Bench) -> None:
    assert rejecting.case.rejected is not None

    def crash(rows: Sequence[RejectedRow]) -> None:
        raise RuntimeError("no dead letters now")

    batch = [row("a", 1), rejecting.case.rejected, row("b", 2)]
    with pytest.raises(RuntimeError, match="no dead letters now"):
        rejecting.write(batch, 0, reject=crash)
    rejecting.reopen()
    rejecting.write(batch, 0)
    assert len(rejecting.rejected) == 1
    assert rejecting.rows() == in_order([row("a", 1), row("b", 2)])


def test_batch_that_fails_midway_is_written_once_when_it_is_repeated(bench: Bench) -> None:
    bench.write([row("before", 1)], 0)
    good = [row(f"k{i}", i) for i in range(50)]
    frame = bench.frame([*good, row("bad", 50)]).repartition(2)
    failing = frame.withColumn(
        "n", F.when(F.col("id") == "bad", F.raise_error(F.lit("lost"))).otherwise(F.col("n"))
    )
    with pytest.raises(Exception, match="lost"):
        bench.write(failing.select("id", F.col("n").cast("bigint").alias("n"), "note"), 1)
    if bench.case.is_atomic:
        assert bench.rows() == [row("before", 1)]
    bench.reopen()
    bench.write(frame, 1)
    assert bench.rows() == in_order([row("before", 1), *good, row("bad", 50)])


def test_cleared_target_has_no_rows_and_no_fence(fenced: Bench) -> None:
    fenced.write([row("a", 1)], 5)
    fenced.writer().clear()
    assert fenced.rows() == []
    assert fenced.writer().applied() is None
    fenced.write([row("b", 2)], 0, checkpoint="second")
    assert fenced.rows() == [row("b", 2)]
