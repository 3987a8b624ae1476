"""Upserts into a database: Headrace's `Table`, and the `foreachBatch` with `executemany` that people write. Rows/s.

The rows come from Parquet files, which cost almost nothing to read, so that the figures are those of the sink.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.measurements import Side
from benchmarks.streams import session_of
from headrace.pipeline import Job
from headrace.pipeline.sinks import Table
from headrace.testing.postgres import PostgresServer

FILES = 40
FILES_PER_BATCH = 10
"""Four batches: all but the first update keys of the first."""

SCHEMA = "url STRING, clicks BIGINT, spent DOUBLE"
MERGE = "ON CONFLICT (url) DO UPDATE SET clicks = excluded.clicks, spent = excluded.spent"

Batch = Callable[[DataFrame, int], None]


def write_rows(spark: SparkSession, folder: Path, rows: int, keys: int) -> None:
    """Generated rows, in an order that is independent of their keys."""
    random_rows = spark.range(0, rows, numPartitions=FILES).selectExpr(
        f"'https://shop.example/item/' || pmod(xxhash64(id), {keys}) AS url",
        "id AS clicks",
        "pmod(xxhash64(id, 1), 100000) / 100.0D AS spent",
    )
    random_rows.write.parquet(str(folder))


def read_rows(spark: SparkSession, folder: Path) -> DataFrame:
    return (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", str(FILES_PER_BATCH))
        .parquet(str(folder))
    )


def drain_headrace(name: str, rows: DataFrame, at: str) -> StreamingQuery:
    running = Job(name, rows, Table("visits", key="url", at=at), mode="batch").start()
    running.wait()
    assert running.query is not None
    return running.query


def drain_by_hand(folder: Path, name: str, rows: DataFrame, batch: Batch) -> StreamingQuery:
    query = (
        rows.writeStream.foreachBatch(batch)
        .option("checkpointLocation", str(folder / "by-hand" / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def batches_s(query: StreamingQuery) -> float:
    """The duration of the batches as Spark reports it, without the start and the end of the query."""
    batches_ms: int = sum(each["durationMs"].get("addBatch", 0) for each in query.recentProgress)
    return batches_ms / 1000


def sqlite_by_hand(path: str) -> Batch:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE visits (url TEXT PRIMARY KEY, clicks INTEGER, spent REAL)")

    def upsert(batch: DataFrame, batch_id: int) -> None:
        with sqlite3.connect(path) as connection:
            connection.executemany(f"INSERT INTO visits VALUES (?, ?, ?) {MERGE}", batch.collect())

    return upsert


def postgres_by_hand(address: str) -> Batch:
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE visits (url text PRIMARY KEY, clicks bigint, spent double precision)"
        )

    def upsert(batch: DataFrame, batch_id: int) -> None:
        with psycopg.connect(address) as connection:
            connection.cursor().executemany(
                f"INSERT INTO visits VALUES (%s, %s, %s) {MERGE}", batch.collect()
            )

    return upsert


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    rows, keys = arguments["rows"], arguments["keys"]
    spark = session_of(Side(arguments["side"]), arguments["bootstrap"], folder)
    write_rows(spark, folder / "rows", rows, keys)
    write_rows(spark, folder / "warm-up-rows", max(rows // 20, FILES), keys)

    def run(database: str, at: str, *, is_warm_up: bool = False) -> dict[str, float]:
        name = f"warm-up-{database}" if is_warm_up else database
        source = read_rows(spark, folder / ("warm-up-rows" if is_warm_up else "rows"))
        by_hand = postgres_by_hand if database == "postgres" else sqlite_by_hand
        batch = by_hand(at) if arguments["side"] == Side.SPARK else None
        started_s = time.monotonic()
        if batch is not None:
            query = drain_by_hand(folder, name, source, batch)
        else:
            query = drain_headrace(name, source, at)
        all_s = time.monotonic() - started_s
        return {database: rows / all_s, f"{database}-batches": rows / batches_s(query)}

    figures: dict[str, float] = {}
    if "sqlite" in arguments["databases"]:
        run("sqlite", str(folder / "warm-up.db"), is_warm_up=True)
        figures |= run("sqlite", str(folder / "measured.db"))
    if "postgres" in arguments["databases"]:
        with PostgresServer() as postgres:
            run("postgres", postgres.create_database("warm_up"), is_warm_up=True)
            figures |= run("postgres", postgres.create_database("measured"))
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
