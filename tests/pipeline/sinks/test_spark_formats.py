"""The sinks as formats of plain Spark: each batch once in effect, by the identity of the checkpoint."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline import register_formats
from headrace.pipeline.sinks import Delta, Redis, Search, Table, Topic
from headrace.pipeline.sinks.spark_formats import FORMATS, SearchFormat
from headrace.testing.redis_server import RedisServer
from tests.compatibility.topic_contents import read_committed

COLUMNS = "id LONG, city STRING, price DOUBLE"


@pytest.fixture(scope="module")
def spark_with_formats(spark: SparkSession) -> SparkSession:
    register_formats(spark)
    return spark


class Stream:
    """Rows in files, each file a batch, written by a plain query that drains them and ends."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._source = folder / "source"
        self._source.mkdir()
        self.checkpoint = folder / "checkpoint"
        self._files = 0

    def add(self, *rows: tuple[int | None, str, float]) -> None:
        names = ("id", "city", "price")
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        (self._source / f"{self._files}.json").write_text("\n".join(lines))
        self._files += 1

    def rows(self) -> DataFrame:
        return self._spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(self._source))

    def write(
        self, format: str, *, rows: DataFrame | None = None, output_mode: str = "append", **options: Any
    ) -> None:
        query = (
            (self.rows() if rows is None else rows)
            .writeStream.format(format)
            .outputMode(output_mode)
            .options(**options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forget_commits(self, *, first: int = 0) -> None:
        """As after a crash between the write and Spark's own commit; of several batches, if it must be."""
        for path in (self.checkpoint / "commits").iterdir():
            if int(path.name.strip(".").removesuffix(".crc")) >= first:
                path.unlink()


@pytest.fixture
def stream(spark_with_formats: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark_with_formats, tmp_path)


def table_rows(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as database:
        return database.execute("SELECT id, city, price FROM orders ORDER BY id").fetchall()


def test_table_has_each_row_once_when_a_batch_is_committed_again(stream: Stream, tmp_path: Path) -> None:
    options: dict[str, Any] = {"name": "orders", "mode": "append", "at": str(tmp_path / "views.db")}
    stream.add((1, "Rome", 1.0), (1, "Rome", 1.0))
    stream.add((2, "Oslo", 2.0))
    stream.write("headrace-table", **options)
    stream.forget_commits(first=1)
    stream.add((3, "Lima", 3.0))
    stream.write("headrace-table", **options)
    assert table_rows(tmp_path / "views.db") == [
        (1, "Rome", 1.0),
        (1, "Rome", 1.0),
        (2, "Oslo", 2.0),
        (3, "Lima", 3.0),
    ]


def test_index_has_each_document_once_when_a_batch_is_committed_again(stream: Stream, tmp_path: Path) -> None:
    index = Search("orders", at=tmp_path / "index")
    stream.add((1, "Rome", 1.0), (2, "New Rome", 1.0))
    stream.write("headrace-search", name="orders", at=str(tmp_path / "index"))
    stream.forget_commits()
    stream.write("headrace-search", name="orders", at=str(tmp_path / "index"))
    assert sorted(hit.row["id"] for hit in index.reader().search("rome")) == [1, 2]


def test_delta_has_each_row_once_and_is_read_by_spark(
    stream: Stream, tmp_path: Path, spark_with_formats: SparkSession
) -> None:
    delta = Delta("orders", partition_by="city", at=tmp_path / "delta")
    stream.add((1, "Rome", 1.0), (2, "Oslo", 1.5))
    stream.write("headrace-delta", name="orders", partitionBy="city", path=str(tmp_path / "delta"))
    stream.forget_commits()
    stream.add((3, "Rome", 3.0))
    stream.write("headrace-delta", name="orders", partitionBy="city", path=str(tmp_path / "delta"))
    assert delta.table().count() == 3
    read = (
        spark_with_formats.read.format("headrace-delta")
        .option("name", "orders")
        .load(str(tmp_path / "delta"))
    )
    assert sorted(tuple(row) for row in read.select("id", "city", "price").collect()) == [
        (1, "Rome", 1.0),
        (2, "Oslo", 1.5),
        (3, "Rome", 3.0),
    ]
    by_city = read.groupBy("city").sum("price").orderBy("city").collect()
    assert [tuple(row) for row in by_city] == [("Oslo", 1.5), ("Rome", 4.0)]


def test_topic_shows_each_message_once_when_a_batch_is_committed_again(
    stream: Stream, bootstrap: str, topic: str
) -> None:
    stream.add((1, "Rome", 1.0), (2, "Oslo", 1.5))
    messages = stream.rows().selectExpr("CAST(id AS STRING) AS key", "city AS value")
    stream.write("headrace-topic", rows=messages, topic=topic, bootstrap=bootstrap)
    stream.forget_commits()
    stream.write("headrace-topic", rows=messages, topic=topic, bootstrap=bootstrap)
    found = read_committed(bootstrap, topic)
    assert sorted((each.key(), each.value()) for each in found) == [(b"1", b"Rome"), (b"2", b"Oslo")]


def test_cache_has_a_hash_for_each_row(stream: Stream, redis_server: RedisServer, name: str) -> None:
    stream.add((1, "Rome", 1.0), (2, "Oslo", 1.5))
    stream.write("headrace-redis", name=name, key="id", at=redis_server.address)
    with redis.Redis.from_url(redis_server.address, decode_responses=True) as client:
        assert client.hget(f"{name}:1", "city") == "Rome"
        assert client.hget(f"{name}:2", "price") == "1.5"


def test_spark_reads_the_files_of_a_delta_table_without_any_format(
    stream: Stream, tmp_path: Path, spark_with_formats: SparkSession
) -> None:
    stream.add((1, "Rome", 1.0), (2, "Oslo", 1.5))
    stream.write("headrace-delta", name="orders", at=str(tmp_path / "delta"))
    files = Delta("orders", at=tmp_path / "delta").table().file_uris()
    assert sorted(row["id"] for row in spark_with_formats.read.parquet(*files).collect()) == [1, 2]


def test_aggregates_in_complete_mode_replace_the_table_with_each_batch(
    stream: Stream, tmp_path: Path
) -> None:
    stream.add((1, "Rome", 1.0), (2, "Oslo", 2.0))
    stream.add((3, "Rome", 5.0))
    counts = stream.rows().groupBy("city").count()
    at = str(tmp_path / "views.db")
    options: dict[str, Any] = {"name": "by_city", "mode": "replace", "at": at}
    stream.write("headrace-table", rows=counts, output_mode="complete", **options)
    with sqlite3.connect(at) as database:
        assert sorted(database.execute("SELECT city, count FROM by_city")) == [("Oslo", 1), ("Rome", 2)]


def test_complete_mode_is_rejected_where_the_sink_cannot_replace(stream: Stream, tmp_path: Path) -> None:
    stream.add((1, "Rome", 1.0))
    counts = stream.rows().groupBy("city").count()
    with pytest.raises(PySparkException, match="can't replace all rows with every batch"):
        stream.write(
            "headrace-search", rows=counts, output_mode="complete", name="by_city", at=str(tmp_path / "index")
        )


def test_batch_writes_append_overwrite_and_repeat_by_name(
    spark_with_formats: SparkSession, tmp_path: Path
) -> None:
    delta = Delta("orders", at=tmp_path / "delta")
    rows = spark_with_formats.createDataFrame([(1, "Rome", 1.0), (2, "Oslo", 2.0)], COLUMNS)
    writer = rows.write.format("headrace-delta").option("name", "orders")
    writer.mode("append").save(str(tmp_path / "delta"))
    writer.mode("append").save(str(tmp_path / "delta"))
    assert delta.table().count() == 4
    writer.mode("overwrite").save(str(tmp_path / "delta"))
    assert delta.table().count() == 2
    for _ in range(2):
        writer.option("batch", "2026-11-15").mode("append").save(str(tmp_path / "delta"))
    assert delta.table().count() == 4


def test_files_of_many_rows_are_deleted_after_the_commit(
    stream: Stream, tmp_path: Path, spark_with_formats: SparkSession
) -> None:
    stream.add((1, "Rome", 1.0))
    many = stream.rows().selectExpr("explode(sequence(1, 200000)) AS id", "city", "price")
    stream.write("headrace-delta", rows=many, name="orders", at=str(tmp_path / "delta"))
    assert Delta("orders", at=tmp_path / "delta").table().count() == 200_000
    assert list((stream.checkpoint / "headrace-staging").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "orders", "colour": "red"}, "headrace-search has no option 'colour'"),
        ({"name": "orders", "key": "uid"}, "the rows have no column uid"),
    ],
)
def test_wrong_options_fail_the_query_with_a_hint(
    stream: Stream, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    stream.add((1, "Rome", 1.0))
    with pytest.raises(PySparkException, match=message):
        stream.write("headrace-search", at=str(tmp_path / "index"), **options)


def test_rejected_rows_fail_the_query_and_are_named(stream: Stream, tmp_path: Path) -> None:
    stream.add((None, "Rome", 1.0))
    with pytest.raises(PySparkException, match=r"1 rows were rejected, such as .*Rome.*the key id is null"):
        stream.write("headrace-search", name="orders", key="id", at=str(tmp_path / "index"))


@pytest.mark.parametrize(
    ("options", "at"),
    [({"path": "/a/orders"}, "/a/orders"), ({"path": "/a/orders", "at": "/b/orders"}, "/b/orders")],
)
def test_path_is_the_place_of_a_sink_without_at(options: dict[str, str], at: str) -> None:
    sink, _ = SearchFormat(options)._sink()
    assert sink == Search("orders", at=at)


def test_formats_have_the_names_of_their_sinks() -> None:
    assert [each.name() for each in FORMATS] == [
        f"headrace-{sink.kind}" for sink in (Table, Topic, Redis, Search, Delta)
    ]
