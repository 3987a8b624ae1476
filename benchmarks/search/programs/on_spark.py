"""The operator on Spark as a stream: the queries are read first, then documents in batches of the same size.

The figure is the number of documents of all batches after the first, divided by their time. The first batch builds the
index and starts the workers.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.search.workload import COLUMN, documents, queries
from headrace import operators as op
from headrace.pipeline import session

BATCHES = 5


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    for name in ("queries", "documents"):
        (folder / name).mkdir()
    texts = documents(arguments["documents"])
    stored = [each.text for each in queries(arguments["queries"])]
    pq.write_table(
        pa.table(
            {"id": [str(number) for number in range(len(stored))], "query": stored, "at": [0] * len(stored)}
        ),
        folder / "queries" / "queries.parquet",
    )
    size = -(-len(texts) // BATCHES)
    for number in range(BATCHES):
        part = texts[number * size : (number + 1) * size]
        pq.write_table(
            pa.table({"number": list(range(len(part))), COLUMN: part}),
            folder / "documents" / f"{number}.parquet",
        )
    spark = session("bench-search", master="local[2]", data_dir=folder / "data")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    changes = spark.readStream.schema("id STRING, query STRING, at BIGINT").parquet(str(folder / "queries"))
    rows = (
        spark.readStream.schema(f"number BIGINT, {COLUMN} STRING")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "documents"))
    )
    hits = rows.transform(
        op.SearchQueries(
            changes.withColumn("at", changes["at"].cast("timestamp")),
            text=COLUMN,
            key="id",
            emit="number",
            as_of="latest",
            query_time="at",
            score=False,
            fragments=0,
        )
    )
    ends_s: list[float] = []
    found: list[int] = []

    def count(batch: DataFrame, _: int) -> None:
        found.append(batch.count())
        ends_s.append(time.perf_counter())

    query = (
        hits.writeStream.foreachBatch(count)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    return {
        "documents_per_s": (len(texts) - size) / (ends_s[BATCHES - 1] - ends_s[0]),
        "hits": sum(found),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
