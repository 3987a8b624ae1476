"""Stored queries on Spark: bounded rows and streams have the same hits; bad settings are rejected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators import topic_tables
from headrace.testing import Feed
from tests.operators.streams import Stream

pytestmark = pytest.mark.timeout(300)

DOCUMENTS = "id STRING, title STRING, body STRING, tenant STRING, price DECIMAL(10,2), at TIMESTAMP"
QUERIES = "id STRING, query STRING, tenant STRING, owner STRING, at TIMESTAMP, op STRING"
Row = dict[str, Any]


def at(minutes: float) -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minutes)


def article(number: int, minutes: float, title: str | None, body: str | None = None, **more: Any) -> Row:
    return {"id": f"d{number}", "title": title, "body": body, "tenant": "acme", "at": at(minutes), **more}


def search(key: str, minutes: float, query: str | None, **more: Any) -> Row:
    op = "+" if query is not None else "-"
    return {"id": key, "query": query, "owner": f"owner of {key}", "at": at(minutes), "op": op, **more}


DOCUMENT_ROWS = [
    article(1, 1, "Green tea", "Hot water and a pot"),
    article(2, 2, None, "tea time", price=7.5),
    article(3, 12, "tea", None, tenant="other"),
    article(4, 13, "Grün tee", "TEAPOT"),
    article(5, 14, "tea pot", "tea"),
    article(6, 25, "tea"),
]
QUERY_ROWS = [
    search("terms", 0, "green AND tea"),
    search("phrase", 0, '"hot water" OR "tea time"'),
    search("range", 0, "price:[7 TO 8}"),
    search("fuzzy", 0, "grun~1 AND te*"),
    search("bad", 0, "tea AND ("),
    search("tenant", 0, "tea", tenant="other"),
    search("changed", 0, "water"),
    search("changed", 10, "tea"),
    search("deleted", 0, "tea"),
    search("deleted", 13.5, None),
]
HITS = {
    *(("d1", key) for key in ("terms", "phrase", "changed", "deleted")),
    *(("d2", key) for key in ("phrase", "range", "deleted")),
    *(("d3", key) for key in ("tenant", "changed", "deleted")),
    *(("d4", key) for key in ("fuzzy",)),
    *(("d5", key) for key in ("changed",)),
    *(("d6", key) for key in ("changed",)),
}
"""Of documents and queries, as of the time of the document."""


def searched(documents: DataFrame, queries: DataFrame, **more: Any) -> DataFrame:
    settings: dict[str, Any] = {"text": ["title", "body"], "key": "id", "same": "tenant", "columns": "owner"}
    settings |= {"time": "at", "query_time": "at"}
    return documents.transform(op.SearchQueries(queries, **settings | more))


def bounded(spark: SparkSession, rows: list[Row], schema: str) -> DataFrame:
    names = [each.split()[0] for each in schema.split(", ")]
    texts = [tuple(str(row[name]) if row.get(name) is not None else None for name in names) for row in rows]
    frame = spark.createDataFrame(texts, ", ".join(f"{name} STRING" for name in names))
    return frame.select(*(F.col(each.split()[0]).cast(each.split(" ", 1)[1]) for each in schema.split(", ")))


def pairs(rows: list[Any]) -> list[tuple[str, str]]:
    return sorted((row["id"], row["id_query"]) for row in rows)


def test_bounded_documents_meet_the_queries_of_their_time(spark: SparkSession) -> None:
    documents, queries = bounded(spark, DOCUMENT_ROWS, DOCUMENTS), bounded(spark, QUERY_ROWS, QUERIES)
    found = searched(documents, queries).collect()
    assert pairs(found) == sorted(HITS)
    (row,) = [row for row in found if (row["id"], row["id_query"]) == ("d1", "terms")]
    assert row["owner"] == "owner of terms"
    assert row["score"] == pytest.approx(2 / 2.2)
    assert [each.asDict() for each in row["highlights"]] == [{"column": "title", "text": "**Green** **tea**"}]
    assert row["title"] == "Green tea"


def test_stream_that_restarts_has_the_hits_of_the_bounded_rows(spark: SparkSession, tmp_path: Path) -> None:
    feeds = [Feed(spark, DOCUMENTS, tmp_path / "documents"), Feed(spark, QUERIES, tmp_path / "queries")]
    found: list[Any] = []

    def run() -> None:
        documents, queries = (feed.rows.withWatermark("at", "5 minutes") for feed in feeds)
        query = (
            searched(documents, queries, query_time=None, time=None)
            .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    early = [row for row in QUERY_ROWS if row["at"] < at(10)]
    feeds[0].send(*DOCUMENT_ROWS[:2])
    feeds[1].send(*early)
    run()
    assert found == []
    late = [row for row in QUERY_ROWS if row not in early]
    # The documents arrive before the changes that are valid for them.
    feeds[0].send(*reversed(DOCUMENT_ROWS[2:]))
    feeds[1].send(search("later", 11, "missing"))
    feeds[0].send(article(7, 13, "nothing"))
    feeds[1].send(*late, search("later", 40, "missing"))
    run()
    feeds[0].send(article(8, 500, "tea"))
    feeds[1].send(search("later", 500, "missing"))
    run()
    assert pairs(found) == sorted(HITS)


def test_documents_without_a_time_are_skipped_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    def hits(rows: DataFrame) -> DataFrame:
        queries = rows.where("ms = 0").selectExpr("user as key", "user as query", "at as since")
        search = op.SearchQueries(
            queries, text="user", key="key", query_time="since", score=False, fragments=0
        )
        return rows.where("ms = 1").transform(search)

    stream = Stream(spark, tmp_path, hits)
    stream.send([("tea", 0, 0), ("green tea", 1, 1), ("black tea", None, 1)])
    found = stream.send([("last", 20, 1), ("nothing", 20, 0)])
    assert [(row["user"], row["key"]) for row in found] == [("green tea", "tea")]
    counts = [metrics for each in stream.progress for metrics in each["observedMetrics"].values()]
    assert sum(each.get("no_time", 0) for each in counts) == 1


def test_latest_queries_need_neither_times_nor_a_watermark(spark: SparkSession, tmp_path: Path) -> None:
    documents, queries = (
        Feed(spark, "id STRING, title STRING", tmp_path / "documents"),
        Feed(spark, "id STRING, query STRING, at TIMESTAMP", tmp_path / "queries"),
    )
    found: list[Any] = []
    settings: dict[str, Any] = {"text": "title", "key": "id", "as_of": "latest", "query_time": "at"}
    settings |= {"deleted": "query is null", "score": False, "fragments": 0, "shards": 1}

    def run() -> list[tuple[str, str]]:
        found.clear()
        query = (
            documents.rows.transform(op.SearchQueries(queries.rows, **settings))
            .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return pairs(found)

    queries.send({"id": "a", "query": "tea", "at": at(0)}, {"id": "b", "query": "pot", "at": at(0)})
    documents.send({"id": "d1", "title": "tea"}, {"id": "d2", "title": None})
    assert run() == [("d1", "a")]
    queries.send({"id": "a", "query": None, "at": at(1)}, {"id": "b", "query": "tea", "at": at(1)})
    documents.send({"id": "d3", "title": "tea"})
    assert run() == [("d3", "b")]


def test_limit_of_a_query_is_a_column_of_it(spark: SparkSession) -> None:
    documents = bounded(spark, DOCUMENT_ROWS, DOCUMENTS)
    queries = spark.sql("select * from values ('a', 'tea', 2L), ('b', 'tea', null) as t(id, query, most)")
    limited = documents.transform(
        op.SearchQueries(
            queries, text=["title", "body"], key="id", as_of="latest", time="at", limit="most", per="1 day"
        )
    )
    found = limited.collect()
    assert pairs(found) == [("d1", "a"), ("d1", "b"), ("d2", "a"), *((f"d{n}", "b") for n in (2, 3, 5, 6))]
    assert {row["suppressed"] for row in found} == {0}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"text": []}, "text is empty"),
        ({"text": "titel"}, "text names column 'titel', which does not exist"),
        ({"text": "price"}, "text names column 'price', which is decimal(10,2), not a string"),
        ({"key": "missing"}, "key names column 'missing', which does not exist"),
        ({"query": "missing"}, "query names column 'missing', which does not exist"),
        ({"same": {"price": "tenant"}}, "same compares 'price', which is decimal(10,2), with 'tenant'"),
        ({"emit": "missing"}, "emit names column 'missing', which does not exist"),
        ({"limit": 0}, "limit is 0"),
        ({"limit": "missing"}, "limit names column 'missing', which does not exist"),
        ({"limit": 1, "per": "no time"}, "per is invalid"),
        ({"as_of": "now"}, "as_of is 'now'"),
        ({"implicit": "xor"}, "implicit is 'xor'"),
        ({"everything": "maybe"}, "everything is 'maybe'"),
        ({"rejected": "topic"}, "rejected is 'topic'"),
        ({"mark": "<em>"}, "mark is '<em>', not a pair of texts"),
        ({"shards": 0}, "shards is 0"),
        ({"shards": 1_000}, "shards is 1000, but the session has"),
        ({"deleted": "1"}, "deleted is '1', which Spark can't evaluate"),
        ({"queries": 5}, "queries is int, but must be a DataFrame"),
        ({"queries": "searches", "query_time": "at"}, "query_time is set, but a topic has its own"),
    ],
)
def test_bad_setting_is_rejected_with_its_name(spark: SparkSession, settings: Row, problem: str) -> None:
    documents, queries = bounded(spark, [], DOCUMENTS), bounded(spark, [], QUERIES)
    with pytest.raises(op.BadOperator) as rejected:
        searched(documents, settings.pop("queries", queries), **settings)
    assert problem in str(rejected.value)
    assert rejected.value.hint


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda rows, queries: (rows.withColumn("score", F.lit(1)), queries), "adds a column 'score'"),
        (lambda rows, queries: (rows, queries.drop("at")), "query_time"),
    ],
)
def test_bad_columns_are_rejected(
    spark: SparkSession, build: Callable[[DataFrame, DataFrame], tuple[DataFrame, DataFrame]], problem: str
) -> None:
    documents, queries = build(bounded(spark, [], DOCUMENTS), bounded(spark, [], QUERIES))
    with pytest.raises(op.BadOperator, match=problem):
        documents.transform(op.SearchQueries(queries, text="title", key="id", time="at", query_time="at"))


def test_document_of_ten_megabytes_and_null_text_are_searched(spark: SparkSession) -> None:
    query = (
        "select 'd1' as id, concat(repeat('hay ', 2500000), 'needle') as title union all select 'd2', null"
    )
    queries = spark.sql("select * from values ('a', 'hay AND needle'), ('b', 'NOT hay') as t(key, query)")
    search = op.SearchQueries(queries, text="title", key="key", as_of="latest", emit="id", fragments=1)
    found = {row["id"]: row for row in spark.sql(query).transform(search).collect()}
    assert {name: row["key"] for name, row in found.items()} == {"d1": "a", "d2": "b"}
    assert found["d1"]["highlights"][0]["text"].startswith("**hay** **hay**")


def test_time_after_the_year_9999_is_searched(spark: SparkSession) -> None:
    """Milliseconds that were read as seconds."""
    documents = spark.sql("select 'd1' as id, 'tea' as title, timestamp_micros(shiftleft(1L, 60)) as expires")
    queries = spark.sql(
        "select * from values ('a', 'tea'), ('b', 'expires:>2026-03-01'), ('c', 'expires:2026-03-01') as t(key, query)"
    )
    search = op.SearchQueries(queries, text="title", key="key", as_of="latest", emit="id", fragments=0)
    assert sorted(row["key"] for row in documents.transform(search).collect()) == ["a", "b"]


def test_result_has_the_emitted_columns_and_the_event_time(spark: SparkSession) -> None:
    documents, queries = bounded(spark, DOCUMENT_ROWS, DOCUMENTS), bounded(spark, QUERY_ROWS, QUERIES)
    found = searched(documents, queries, emit="id", columns=[])
    assert found.columns == ["id", "at", "id_query", "score", "highlights"]
    assert pairs(found.collect()) == sorted(HITS)


def test_bounded_queries_beside_a_stream_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    stream = Feed(spark, DOCUMENTS, tmp_path).rows.withWatermark("at", "1 minute")
    with pytest.raises(op.BadOperator, match="queries is bounded, but the rows are a stream"):
        searched(stream, bounded(spark, [], QUERIES))


def test_topic_needs_a_reader(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_tables, "_readers", [])
    with pytest.raises(op.BadOperator, match="nothing that reads topics is imported"):
        bounded(spark, [], DOCUMENTS).transform(
            op.SearchQueries("searches", text="title", key="id", time="at")
        )
