"""What only `Parquet` does; `tests/contract/test_sinks.py` checks the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Parquet
from headrace.pipeline.sinks.sink import RejectedRow

SCHEMA = StructType().add("id", "string").add("city", "string").add("year", "integer").add("n", "long")
ROWS = [("a", "Oslo", 2026, 1), ("b", "Ber/gen=ø% 1", 2025, 2), ("c", None, None, 3)]


def write(sink: Parquet, rows: Sequence[tuple[object, ...]], batch_id: int = 0) -> list[RejectedRow]:
    columns = list(zip(*rows, strict=True))
    types = (pa.string(), pa.string(), pa.int32(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    rejected: list[RejectedRow] = []
    writer = sink.open("job", SCHEMA)
    writer.apply(
        pa.table(arrays, names=SCHEMA.names).to_batches(),
        Fence(job="job", checkpoint="first", batch_id=batch_id),
        rejected.extend,
    )
    writer.close()
    return rejected


def test_duckdb_and_spark_read_the_folders_with_their_partitions(tmp_path: Path, spark: SparkSession) -> None:
    sink = Parquet("users", key="id", partition_by=("city", "year"), at=tmp_path / "users")
    write(sink, ROWS)
    write(sink, [("a", "Oslo", 2026, 5)], 1)
    expected = [("a", "Oslo", 2026, 5), *ROWS[1:]]
    pattern = f"{tmp_path}/users/**/*.parquet"
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT id, city, year, n FROM read_parquet(?, hive_partitioning = true) ORDER BY id", [pattern]
        ).fetchall()
    assert found == expected
    in_spark = spark.read.parquet(str(tmp_path / "users")).select("id", "city", "year", "n").orderBy("id")
    assert [tuple(each) for each in in_spark.collect()] == expected


def test_empty_text_cannot_be_a_partition(tmp_path: Path) -> None:
    sink = Parquet("users", key="id", partition_by="city", at=tmp_path / "users")
    (rejected,) = write(sink, [*ROWS, ("d", "", 2026, 1)])
    assert (rejected.row["id"], rejected.reason) == ("d", "city is empty, and can't be the name of a folder")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"key": "city"}, "its key is id"),
        ({"key": "id", "partition_by": "city"}, "it is partitioned by nothing"),
    ],
)
def test_table_of_another_layout_is_not_written(
    tmp_path: Path, changed: dict[str, Any], problem: str
) -> None:
    write(Parquet("users", key="id", at=tmp_path / "users"), ROWS)
    with pytest.raises(BadSink, match=problem):
        Parquet("users", at=tmp_path / "users", **changed).open("job", SCHEMA)


def test_table_with_other_columns_is_not_written(tmp_path: Path) -> None:
    sink = Parquet("users", key="id", at=tmp_path / "users")
    write(sink, ROWS)
    with pytest.raises(BadSink, match="n is missing in the rows"):
        sink.open("job", StructType(SCHEMA.fields[:3]))


def test_sink_says_what_it_cannot_store(tmp_path: Path) -> None:
    sink = Parquet("users", key="id", at=tmp_path / "users")
    with pytest.raises(BadSink, match="no type for the column 'took'"):
        sink.open("job", StructType().add("id", "string").add("took", "interval day to second"))
    with pytest.raises(BadSink, match="keep_s"):
        Parquet("users", keep_s=-1)
