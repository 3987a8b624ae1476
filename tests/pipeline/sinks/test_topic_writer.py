"""Each row is in the topic once, whatever fails; on both brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Topic
from headrace.pipeline.sinks.fenced_producer import FencedProducer, Target
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.topic_task import task_writer
from headrace.pipeline.sinks.topic_writer import writer_name
from tests.compatibility.topic_contents import read_committed, read_to_end

JOB = "orders"
PARTS = 4
PATIENCE_S = 60.0
BY_TASKS = 0
"""For `driver_rows_max`."""


def fence(batch_id: int, checkpoint: str = "first") -> Fence:
    """As of a source that had 1,000 records."""
    positions = [json.dumps({"input": {"0": 1_000 * number}}) for number in (batch_id, batch_id + 1)]
    return Fence(
        job=JOB, checkpoint=checkpoint, batch_id=batch_id, starts=(positions[0],), ends=(positions[1],)
    )


def reject_none(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(f"nothing should be rejected, and {rows} was")


def numbers(spark: SparkSession, count: int, first: int = 0) -> DataFrame:
    return spark.range(first, first + count, numPartitions=PARTS).selectExpr("id", "'k' || id AS name")


def ids(messages: Sequence[Any]) -> list[int]:
    return sorted(json.loads(message.value())["id"] for message in messages)


def read_now(bootstrap: str, topic: str) -> list[Any]:
    """While transactions may be open."""
    return read_to_end(bootstrap, topic, isolation_level="read_committed")


@pytest.mark.parametrize("driver_rows_max", [10_000, BY_TASKS], ids=["by-driver", "by-tasks"])
def test_rows_of_all_batches_are_written_once(
    spark: SparkSession, either: str, name: str, opened: Any, driver_rows_max: int
) -> None:
    sink = Topic(name, key="name", bootstrap=either, driver_rows_max=driver_rows_max)
    writer = opened(sink, numbers(spark, 0))
    for batch_id in range(3):
        rows = sink.prepare(numbers(spark, 100, first=batch_id * 100))
        if batch_id == 2:
            writer = opened(sink, numbers(spark, 0))
        assert writer.write(rows, fence(batch_id), reject_none) == 100
        assert writer.write(rows, fence(batch_id), reject_none) == 0
    assert ids(read_committed(either, name)) == list(range(300))


def test_batch_with_some_complete_tasks_is_completed_by_the_others(
    spark: SparkSession, either: str, name: str, opened: Any
) -> None:
    sink = Topic(name, key="name", bootstrap=either, driver_rows_max=BY_TASKS)
    rows = numbers(spark, 400)
    is_last = F.col("id") == 399
    broken = rows.withColumn("name", F.when(is_last, F.raise_error(F.lit("lost"))).otherwise(F.col("name")))
    writer = opened(sink, rows)
    with pytest.raises(Exception, match="lost"):
        writer.write(sink.prepare(broken.select("id", F.col("name").cast("string"))), fence(0), reject_none)
    there = ids(read_now(either, name))
    assert 0 < len(there) < 400
    assert writer.applied() == fence(0), "a lost checkpoint must find this batch started"
    left = opened(sink, rows).write(sink.prepare(rows), fence(0), reject_none)
    assert left <= 400 - len(there), "a task may have ended after the batch had failed"
    assert ids(read_committed(either, name)) == list(range(400))


KILLED = """
import sys
from headrace.pipeline import session
from headrace.pipeline.sinks import Topic
from tests.pipeline.sinks.test_topic_writer import BY_TASKS, fence, numbers, reject_none

bootstrap, topic, folder = sys.argv[1:]
spark = session("killed", master="local[2]", bootstrap=bootstrap, data_dir=folder, conf={"spark.driver.memory": "512m"})
sink = Topic(topic, key="name", bootstrap=bootstrap, driver_rows_max=BY_TASKS)
rows = numbers(spark, 400)
# The last two tasks never end.
stuck = rows.selectExpr("id", "IF(id >= 200, java_method('java.lang.Thread', 'sleep', 600000L), name) AS name")
sink.open("orders", sink.prepare(rows).schema).write(sink.prepare(stuck), fence(0), reject_none)
"""


@pytest.mark.timeout(300)
def test_driver_that_is_killed_amid_its_tasks_leaves_each_row_once(
    spark: SparkSession, bootstrap: str, topic: str, opened: Any, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, bootstrap, topic, str(tmp_path)],
        start_new_session=True,  # Spark's Java and its Python workers die with it
        cwd=Path(__file__).parents[3],
    )
    try:
        while len(read_now(bootstrap, topic)) < 200:
            assert process.poll() is None, "it ended by itself"
            time.sleep(0.2)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    rows = numbers(spark, 400)
    sink = Topic(topic, key="name", bootstrap=bootstrap, driver_rows_max=BY_TASKS)
    assert opened(sink, rows).write(sink.prepare(rows), fence(0), reject_none) == 200
    assert ids(read_committed(bootstrap, topic)) == list(range(400))


def test_batch_that_was_started_with_another_number_of_tasks_is_rejected(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    sink = Topic(name, bootstrap=bootstrap, driver_rows_max=BY_TASKS)
    rows = sink.prepare(numbers(spark, 8))
    opened(sink, numbers(spark, 0)).write(rows, fence(0), reject_none)
    again = opened(sink, numbers(spark, 0))
    with pytest.raises(BadSink, match="started with 4 tasks, and has 1 now"):
        again.write(rows.coalesce(1), fence(0), reject_none)
    assert again.write(rows, fence(0), reject_none) == 0


# Fenced writers


def test_fenced_driver_writes_nothing(spark: SparkSession, either: str, name: str, opened: Any) -> None:
    sink = Topic(name, bootstrap=either)
    rows = numbers(spark, 10)
    fenced = opened(sink, rows)
    fenced.write(sink.prepare(rows), fence(0), reject_none)
    opened(sink, rows).write(sink.prepare(numbers(spark, 10, first=10)), fence(1), reject_none)
    with pytest.raises(SinkUnavailable, match="another process"):
        fenced.write(sink.prepare(numbers(spark, 10, first=20)), fence(2), reject_none)
    assert ids(read_committed(either, name)) == list(range(20))


def test_fenced_task_writes_nothing(spark: SparkSession, either: str, name: str, opened: Any) -> None:
    sink = Topic(name, bootstrap=either, driver_rows_max=BY_TASKS)
    rows = numbers(spark, 8)
    writer = opened(sink, rows)
    writer.write(sink.prepare(rows), fence(0), reject_none)
    target = Target(topic=name, bootstrap=either, message_bytes_max=1_000_000)
    zombie = FencedProducer(task_writer(writer_name(JOB, name), 0), target)  # fences the worker's producer
    zombie.begin(1, fence(1).to_json())
    zombie.produce(name, b'{"id": -1}', None)
    assert writer.write(sink.prepare(numbers(spark, 8, first=8)), fence(1), reject_none) == 8
    with pytest.raises(SinkUnavailable, match="another process"):
        zombie.commit()
    zombie.close()
    assert ids(read_committed(either, name)) == list(range(16))


# Rows that the topic rejects


@pytest.mark.parametrize("driver_rows_max", [10_000, BY_TASKS], ids=["by-driver", "by-tasks"])
def test_message_too_large_for_the_topic_is_rejected_and_the_others_are_written(
    spark: SparkSession, either: str, name: str, opened: Any, driver_rows_max: int
) -> None:
    admin = AdminClient({"bootstrap.servers": either, "log_level": 0})
    limited = NewTopic(name, 2, 1, config={"max.message.bytes": "20000"})
    admin.create_topics([limited])[name].result(PATIENCE_S)
    sizes = {3: 30_000, 200: 19_800, 250: 2_000_000}  # a row that just fits, and two that do not
    padding = F.coalesce(*(F.when(F.col("id") == id, F.lit(size)) for id, size in sizes.items()), F.lit(10))
    header = F.struct(F.lit("id").alias("key"), F.encode(F.col("id").cast("string"), "utf-8").alias("value"))
    rows = numbers(spark, 400).select(F.rpad("name", padding, "x").alias("name"), F.array(header).alias("h"))
    sink = Topic(name, value="name", headers="h", bootstrap=either, driver_rows_max=driver_rows_max)
    rejected: list[RejectedRow] = []
    writer = opened(sink, rows)
    assert writer.write(sink.prepare(rows), fence(0), rejected.extend) == 398
    assert sorted(len(each.row["value"]) for each in rejected) == [30_000, 2_000_000]
    assert {each.headers for each in rejected} == {(("id", b"3"),), (("id", b"250"),)}
    assert all("20,000" in each.reason for each in rejected)
    lengths = Counter(len(message.value()) for message in read_committed(either, name))
    assert lengths == {10: 397, 19_800: 1}
    assert writer.write(sink.prepare(rows), fence(0), reject_none) == 0


@pytest.mark.parametrize("driver_rows_max", [10_000, BY_TASKS], ids=["by-driver", "by-tasks"])
def test_crash_while_a_rejected_row_is_reported_loses_no_row(
    spark: SparkSession, bootstrap: str, name: str, opened: Any, driver_rows_max: int
) -> None:
    rows = numbers(spark, 8).selectExpr("id", "IF(id = 5, repeat('x', 2000000), 'x') AS name")
    sink = Topic(name, bootstrap=bootstrap, driver_rows_max=driver_rows_max)

    def crash(rows: Sequence[RejectedRow]) -> None:
        raise RuntimeError("no dead letters now")

    with pytest.raises(RuntimeError, match="no dead letters"):
        opened(sink, rows).write(sink.prepare(rows), fence(0), crash)
    assert 4 not in ids(read_committed(bootstrap, name)), "the rows of that task wait for it"
    rejected: list[RejectedRow] = []
    opened(sink, rows).write(sink.prepare(rows), fence(0), rejected.extend)
    assert len(rejected) == 1
    assert ids(read_committed(bootstrap, name)) == [0, 1, 2, 3, 4, 6, 7]


def test_few_input_rows_that_become_many_are_written_by_tasks(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    sink = Topic(name, bootstrap=bootstrap)
    rows = numbers(spark, 400)
    before = spark.conf.get("spark.driver.maxResultSize", "1g")
    spark.sparkContext._jsc.sc().conf().set("spark.driver.maxResultSize", "4k")
    try:
        written = opened(sink, rows).write(sink.prepare(rows), fence(0), reject_none)
    finally:
        spark.sparkContext._jsc.sc().conf().set("spark.driver.maxResultSize", before)
    assert written == 400
    assert ids(read_committed(bootstrap, name)) == list(range(400))
