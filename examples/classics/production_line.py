"""A production line: machines that stop sending heartbeats, and parts that skip a step.

python -m examples.classics.production_line

`Absence` emits a heartbeat that no other followed in time. A row pattern finds parts that were packed without a test.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.pipeline import session

BEATS = [
    ("press", "10:00:00"),
    ("press", "10:00:20"),
    ("press", "10:01:30"),
    ("saw", "10:00:10"),
    ("saw", "10:00:35"),
]
STEPS = [
    ("part-1", "10:00:00", "cut"),
    ("part-1", "10:01:00", "test"),
    ("part-1", "10:02:00", "pack"),
    ("part-2", "10:00:30", "cut"),
    ("part-2", "10:02:30", "pack"),
]


def timed(spark: SparkSession, rows: list[tuple[str, ...]], schema: str) -> DataFrame:
    created = spark.createDataFrame(rows, schema)
    return created.withColumn("at", F.to_timestamp(F.concat(F.lit("2026-03-01T"), "at", F.lit("Z"))))


def main() -> None:
    spark = session("production-line")
    beats = timed(spark, BEATS, "machine STRING, at STRING")
    silent = beats.transform(op.Absence(on="machine", within="30 seconds", time="at"))
    for row in silent.orderBy("at").selectExpr("machine", "date_format(at, 'HH:mm:ss') AS at").collect():
        print(f"{row.machine}: no heartbeat within 30 seconds of {row.at}")

    steps = timed(spark, STEPS, "part STRING, at STRING, step STRING")
    cut, test = op.RowPattern("cut", "step = 'cut'"), op.RowPattern("other", "step <> 'test'")
    pack = op.RowPattern("pack", "step = 'pack'")
    untested = (cut + test.times(0, None, reluctant=True) + pack).match(
        partition_by="part", order_by="at", within="1 hour", measures={"after": "pack.at - cut.at"}
    )
    for row in steps.transform(untested).collect():
        print(f"{row.part}: packed without a test, {row.after.total_seconds():.0f} s after it was cut")
    spark.stop()


if __name__ == "__main__":
    main()
