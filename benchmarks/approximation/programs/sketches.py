"""An aggregate over all rows of a stream, by a sketch or exact: records per second, and the size of the checkpoint.

The rows come from Parquet files, which cost almost nothing to read. The first batch starts Python workers and compiles;
it is not measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.pipeline import session

DISTINCT = "distinct"
PERCENTILE = "percentile"
TOP = "top"

BATCHES = 8
FILES_PER_BATCH = 2
SCHEMA = "value BIGINT, number DOUBLE, url STRING"

SKETCHES: dict[str, Callable[[DataFrame], DataFrame]] = {
    DISTINCT: op.Approximate(aggregate={"n": "distinct(value)"}),
    PERCENTILE: op.Approximate(aggregate={"p99": "percentile(number, 0.99)"}),
    TOP: op.TopN(100, of="url"),
}
EXACT: dict[str, Callable[[DataFrame], DataFrame]] = {
    # Spark does not support count(distinct) on a stream.
    DISTINCT: lambda rows: rows.groupBy().agg(F.size(F.collect_set("value"))),
    PERCENTILE: lambda rows: rows.groupBy().agg(F.percentile("number", 0.99)),
    TOP: lambda rows: rows.groupBy("url").count(),
}


def write_files(spark: SparkSession, folder: Path, rows: int, values: int) -> None:
    """Uniform values; numbers that are all different if the values are; URLs of which few are frequent."""
    spark.range(0, rows, numPartitions=BATCHES * FILES_PER_BATCH).selectExpr(
        f"pmod(xxhash64(id), {values}) AS value",
        f"exp(pmod(xxhash64(id, 1), {values}) * 10D / {values}) AS number",
        f"'/page/' || cast(exp(ln({values}) * pmod(xxhash64(id, 2), 1000003) / 1000003D) AS BIGINT) AS url",
    ).write.parquet(str(folder))


def drain(
    spark: SparkSession, files: Path, aggregate: Callable[[DataFrame], DataFrame], folder: Path
) -> float:
    """Records per second."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", str(FILES_PER_BATCH))
    query = (
        aggregate(reader.parquet(str(files)))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [json.loads(each.json) for each in query.recentProgress]
    measured = [each for each in batches if each["numInputRows"]][1:]
    seconds = sum(each["durationMs"]["triggerExecution"] for each in measured) / 1000
    return float(sum(each["numInputRows"] for each in measured) / seconds)


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder, kind = Path(arguments["folder"]), arguments["kind"]
    spark = session("bench-sketches", master="local[2]", data_dir=folder / "data")
    spark.sparkContext.setLogLevel("ERROR")
    write_files(spark, folder / "rows", arguments["rows"], arguments["values"])
    way = (EXACT if arguments["exact"] else SKETCHES)[kind]
    rate = drain(spark, folder / "rows", way, folder / "checkpoint")
    spark.stop()
    state = (folder / "checkpoint" / "state").rglob("*")
    return {"rate": rate, "state_mb": sum(each.stat().st_size for each in state if each.is_file()) / 1e6}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
