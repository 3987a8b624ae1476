"""`Topic`: what becomes of a row, and that each is there once, whatever dies in between; on both brokers."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.pipeline import read_topic
from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Topic
from headrace.pipeline.sinks.fenced_producer import FencedProducer, TransactionFailed
from headrace.pipeline.sinks.sink import RefusedRow, SinkWriter
from headrace.pipeline.sinks.topic_task import task_writer
from headrace.pipeline.sinks.topic_writer import writer_name
from tests.compatibility.topic_contents import read_committed, read_to_end

JOB = "orders"
PARTS = 4
PATIENCE_S = 60.0
BY_TASKS = 0
"""For `driver_rows_max`."""


@pytest.fixture(params=["headrace", "apache-kafka"])
def either(request: pytest.FixtureRequest) -> str:
    """The address of a broker: Headrace's, and Apache Kafka's."""
    if request.param == "headrace":
        return str(request.getfixturevalue("bootstrap"))
    return str(request.getfixturevalue("apache_kafka").bootstrap)


@pytest.fixture
def opened() -> Iterator[Callable[..., SinkWriter]]:
    """Opens the writer of a sink for rows; all of them are closed in the end."""
    writers: list[SinkWriter] = []

    def open(sink: Topic, rows: DataFrame, job: str = JOB) -> SinkWriter:
        writers.append(sink.open(job, sink.prepare(rows).schema))
        return writers[-1]

    yield open
    for writer in writers:
        writer.close()


def fence(batch_id: int, checkpoint: str = "first") -> Fence:
    """As of a source that had 1,000 records."""
    positions = [json.dumps({"input": {"0": 1_000 * number}}) for number in (batch_id, batch_id + 1)]
    return Fence(
        job=JOB, checkpoint=checkpoint, batch_id=batch_id, starts=(positions[0],), ends=(positions[1],)
    )


def refuse_none(rows: Sequence[RefusedRow]) -> None:
    raise AssertionError(f"nothing should be refused, and {rows} was")


def numbers(spark: SparkSession, count: int, first: int = 0) -> DataFrame:
    return spark.range(first, first + count, numPartitions=PARTS).selectExpr("id", "'k' || id AS name")


def ids(messages: Sequence[Any]) -> list[int]:
    return sorted(json.loads(message.value())["id"] for message in messages)


def read_now(bootstrap: str, topic: str) -> list[Any]:
    """While transactions may be open."""
    return read_to_end(bootstrap, topic, isolation_level="read_committed")


# What becomes of a row


def test_row_is_json_without_the_columns_of_the_source(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    rows = spark.sql(
        "SELECT 'ann' AS user, 7 AS n, TIMESTAMP '2026-11-15 12:00:00.000001' AS at, 3L AS _offset"
    )
    sink = Topic(name, key="user", bootstrap=bootstrap)
    assert opened(sink, rows).write(sink.prepare(rows), fence(0), refuse_none) == 1
    (message,) = read_committed(bootstrap, name)
    assert message.key() == b"ann"
    assert json.loads(message.value()) == {"user": "ann", "n": 7, "at": "2026-11-15T12:00:00.000001Z"}


def test_column_is_written_as_it_is_with_headers(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    rows = spark.sql(
        "SELECT X'00FF' AS body, 12 AS id, 'x' AS part, "
        "array(named_struct('key', 'trace', 'value', X'01'), named_struct('key', 'none', 'value', NULL)) AS h"
    )
    for number, driver_rows_max in enumerate((Topic(name).driver_rows_max, BY_TASKS)):
        sink = Topic(
            f"{name}-{number}",
            key=["id", "part"],
            value="body",
            headers="h",
            bootstrap=bootstrap,
            driver_rows_max=driver_rows_max,
        )
        opened(sink, rows).write(sink.prepare(rows), fence(0), refuse_none)
        (message,) = read_committed(bootstrap, f"{name}-{number}")
        assert json.loads(message.key()) == {"id": 12, "part": "x"}
        assert message.value() == b"\x00\xff"
        assert message.headers() == [("trace", b"\x01"), ("none", None)]


ORDER = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "user", "type": ["string", "null"]},
            {"name": "n", "type": ["int", "null"]},
            {"name": "tags", "type": [{"type": "array", "items": ["string", "null"]}, "null"]},
        ],
    }
)


def test_row_as_avro_is_read_by_read_topic_and_by_another_library(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES ('ann', 7, array('a', NULL), 1L), (NULL, NULL, NULL, 2L) AS t(user, n, tags, _offset)"
    )
    sink = Topic(name, key="user", format="avro", bootstrap=bootstrap)
    assert opened(sink, rows).write(sink.prepare(rows), fence(0), refuse_none) == 2
    written = [("ann", 7, ["a", None]), (None, None, None)]
    back = read_topic(spark, name, schema=ORDER, format="avro", bounded=True, bootstrap=bootstrap)
    assert [tuple(row) for row in back.select("user", "n", "tags").orderBy("_offset").collect()] == written
    schema = fastavro.parse_schema(json.loads(ORDER))
    read_by_other: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(message.value()), schema)
        for message in read_committed(bootstrap, name)
    ]
    assert [tuple(row.values()) for row in read_by_other] == written


def test_deleted_row_becomes_a_tombstone(spark: SparkSession, bootstrap: str, name: str, opened: Any) -> None:
    rows = spark.sql("SELECT * FROM VALUES ('u', 'a', 1), ('d', 'b', 2), (NULL, 'c', 3) AS t(op, id, n)")
    sink = Topic(name, key="id", tombstones=True, bootstrap=bootstrap)
    opened(sink, rows).write(sink.prepare(rows), fence(0), refuse_none)
    values = {message.key(): message.value() for message in read_committed(bootstrap, name)}
    assert values == {b"a": b'{"id":"a","n":1}', b"b": None, b"c": b'{"id":"c","n":3}'}


def test_key_goes_to_the_partition_that_sparks_own_sink_chooses(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for topic in (name, f"{name}-native"):
        admin.create_topics([NewTopic(topic, 5, 1)])[topic].result(PATIENCE_S)
    rows = numbers(spark, 200)
    sink = Topic(name, key="name", bootstrap=bootstrap)
    opened(sink, rows).write(sink.prepare(rows), fence(0), refuse_none)
    native = Topic(f"{name}-native", key="name", bootstrap=bootstrap, guarantee="at-least-once").native()
    assert native is not None
    sink.prepare(rows).write.format(native.format).options(**native.options).save()
    places = [
        {message.key(): message.partition() for message in read_committed(bootstrap, topic)}
        for topic in (name, f"{name}-native")
    ]
    assert len(places[0]) == 200
    assert places[0] == places[1]


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"name": "a b"}, "a b"),
        ({"guarantee": "once"}, "guarantee"),
        ({"format": "xml"}, "format"),
        ({"compression": "rar"}, "compression"),
        ({"tombstones": True}, "key"),
    ],
)
def test_wrong_option_is_named(wrong: dict[str, Any], names: str) -> None:
    with pytest.raises(BadSink, match=names):
        Topic(wrong.pop("name", "orders"), **wrong)


def test_missing_column_is_named_with_those_that_are_there(spark: SparkSession) -> None:
    with pytest.raises(BadSink, match=r"'user'.*id, name"):
        Topic("orders", key="user").prepare(numbers(spark, 1))


# Each row once


@pytest.mark.parametrize("driver_rows_max", [10_000, BY_TASKS], ids=["by-driver", "by-tasks"])
def test_rows_of_all_batches_are_there_once(
    spark: SparkSession, either: str, name: str, opened: Any, driver_rows_max: int
) -> None:
    sink = Topic(name, key="name", bootstrap=either, driver_rows_max=driver_rows_max)
    writer = opened(sink, numbers(spark, 0))
    for batch_id in range(3):
        rows = sink.prepare(numbers(spark, 100, first=batch_id * 100))
        if batch_id == 2:
            writer = opened(sink, numbers(spark, 0))
        assert writer.write(rows, fence(batch_id), refuse_none) == 100
        assert writer.write(rows, fence(batch_id), refuse_none) == 0
    assert ids(read_committed(either, name)) == list(range(300))


def test_batch_of_which_some_tasks_are_done_is_completed_by_the_others(
    spark: SparkSession, either: str, name: str, opened: Any
) -> None:
    sink = Topic(name, key="name", bootstrap=either, driver_rows_max=BY_TASKS)
    rows = numbers(spark, 400)
    is_last = F.col("id") == 399
    broken = rows.withColumn("name", F.when(is_last, F.raise_error(F.lit("lost"))).otherwise(F.col("name")))
    writer = opened(sink, rows)
    with pytest.raises(Exception, match="lost"):
        writer.write(sink.prepare(broken.select("id", F.col("name").cast("string"))), fence(0), refuse_none)
    there = ids(read_now(either, name))
    assert 0 < len(there) < 400
    assert writer.applied() == fence(0), "a lost checkpoint must find this batch begun"
    left = opened(sink, rows).write(sink.prepare(rows), fence(0), refuse_none)
    assert left <= 400 - len(there), "a task may have ended after the batch had failed"
    assert ids(read_committed(either, name)) == list(range(400))


KILLED = """
import sys
from headrace.pipeline import session
from headrace.pipeline.sinks import Topic
from tests.pipeline.sinks.test_topic import BY_TASKS, fence, numbers, refuse_none

bootstrap, topic, folder = sys.argv[1:]
spark = session("killed", master="local[2]", bootstrap=bootstrap, data_dir=folder, conf={"spark.driver.memory": "512m"})
sink = Topic(topic, key="name", bootstrap=bootstrap, driver_rows_max=BY_TASKS)
rows = numbers(spark, 400)
# The rows of the last two parts come never.
stuck = rows.selectExpr("id", "IF(id >= 200, java_method('java.lang.Thread', 'sleep', 600000L), name) AS name")
sink.open("orders", sink.prepare(rows).schema).write(sink.prepare(stuck), fence(0), refuse_none)
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
    assert opened(sink, rows).write(sink.prepare(rows), fence(0), refuse_none) == 200
    assert ids(read_committed(bootstrap, topic)) == list(range(400))


def test_batch_that_was_begun_by_another_number_of_tasks_is_refused(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    sink = Topic(name, bootstrap=bootstrap, driver_rows_max=BY_TASKS)
    rows = sink.prepare(numbers(spark, 8))
    opened(sink, numbers(spark, 0)).write(rows, fence(0), refuse_none)
    again = opened(sink, numbers(spark, 0))
    with pytest.raises(BadSink, match="begun by 4 tasks, and now has 1"):
        again.write(rows.coalesce(1), fence(0), refuse_none)
    assert again.write(rows, fence(0), refuse_none) == 0


# Those who were thought dead


def test_driver_that_was_thought_dead_writes_nothing_any_more(
    spark: SparkSession, either: str, name: str, opened: Any
) -> None:
    sink = Topic(name, bootstrap=either)
    rows = numbers(spark, 10)
    thought_dead = opened(sink, rows)
    thought_dead.write(sink.prepare(rows), fence(0), refuse_none)
    opened(sink, rows).write(sink.prepare(numbers(spark, 10, first=10)), fence(1), refuse_none)
    with pytest.raises(TransactionFailed, match="another process"):
        thought_dead.write(sink.prepare(numbers(spark, 10, first=20)), fence(2), refuse_none)
    assert ids(read_committed(either, name)) == list(range(20))


def test_task_that_was_thought_dead_leaves_nothing(
    spark: SparkSession, either: str, name: str, opened: Any
) -> None:
    sink = Topic(name, bootstrap=either, driver_rows_max=BY_TASKS)
    rows = numbers(spark, 8)
    writer = opened(sink, rows)
    writer.write(sink.prepare(rows), fence(0), refuse_none)
    zombie = _producer(either, name, task=0)  # the workers' own producer of that task has lost its name now
    zombie.begin(1, fence(1).to_json())
    zombie.produce(name, b'{"id": -1}', None)
    assert writer.write(sink.prepare(numbers(spark, 8, first=8)), fence(1), refuse_none) == 8
    with pytest.raises(TransactionFailed, match="another process"):
        zombie.commit()
    zombie.close()
    assert ids(read_committed(either, name)) == list(range(16))


def _producer(bootstrap: str, topic: str, task: int) -> FencedProducer:
    return FencedProducer(
        task_writer(writer_name(JOB, topic), task),
        topic=topic,
        bootstrap=bootstrap,
        config={},
        producer_config={},
        timeout_s=PATIENCE_S,
    )


# Rows that the topic will not take


@pytest.mark.parametrize("driver_rows_max", [10_000, BY_TASKS], ids=["by-driver", "by-tasks"])
def test_message_too_large_for_the_topic_is_refused_and_the_others_are_written(
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
    refused: list[RefusedRow] = []
    writer = opened(sink, rows)
    assert writer.write(sink.prepare(rows), fence(0), refused.extend) == 398
    assert sorted(len(each.row["value"]) for each in refused) == [30_000, 2_000_000]
    assert {each.headers for each in refused} == {(("id", b"3"),), (("id", b"250"),)}
    assert all("20,000" in each.reason for each in refused)
    lengths = Counter(len(message.value()) for message in read_committed(either, name))
    assert lengths == {10: 397, 19_800: 1}
    assert writer.write(sink.prepare(rows), fence(0), refuse_none) == 0


@pytest.mark.parametrize("driver_rows_max", [10_000, BY_TASKS], ids=["by-driver", "by-tasks"])
def test_crash_while_a_refused_row_is_told_loses_neither_it_nor_the_others(
    spark: SparkSession, bootstrap: str, name: str, opened: Any, driver_rows_max: int
) -> None:
    rows = numbers(spark, 8).selectExpr("id", "IF(id = 5, repeat('x', 2000000), 'x') AS name")
    sink = Topic(name, bootstrap=bootstrap, driver_rows_max=driver_rows_max)

    def crash(rows: Sequence[RefusedRow]) -> None:
        raise RuntimeError("no dead letters now")

    with pytest.raises(RuntimeError, match="no dead letters"):
        opened(sink, rows).write(sink.prepare(rows), fence(0), crash)
    assert 4 not in ids(read_committed(bootstrap, name)), "the rows of that task wait for it"
    refused: list[RefusedRow] = []
    opened(sink, rows).write(sink.prepare(rows), fence(0), refused.extend)
    assert len(refused) == 1
    assert ids(read_committed(bootstrap, name)) == [0, 1, 2, 3, 4, 6, 7]


def test_few_input_rows_that_become_many_are_written_by_tasks(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    sink = Topic(name, bootstrap=bootstrap)
    rows = numbers(spark, 400)
    before = spark.conf.get("spark.driver.maxResultSize", "1g")
    spark.sparkContext._jsc.sc().conf().set("spark.driver.maxResultSize", "4k")
    try:
        written = opened(sink, rows).write(sink.prepare(rows), fence(0), refuse_none)
    finally:
        spark.sparkContext._jsc.sc().conf().set("spark.driver.maxResultSize", before)
    assert written == 400
    assert ids(read_committed(bootstrap, name)) == list(range(400))
