"""The events as DataFrames: bounded, or streams of topics."""

from __future__ import annotations

import json

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.nexmark.events import CLOSED_AT, SCHEMAS, TIMES, WATERMARK, closing_events, events, rows_of
from headrace.pipeline import read_topic


def bounded(spark: SparkSession) -> dict[str, DataFrame]:
    found = events()
    return {
        topic: spark.createDataFrame([tuple(row.values()) for row in rows_of(topic, found)], schema)
        for topic, schema in SCHEMAS.items()
    }


def write_topics(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for event in [*events(), *closing_events()]:
        producer.produce(event.topic, value=json.dumps(event.row, default=str))
    producer.flush()


def read_topics(spark: SparkSession) -> dict[str, DataFrame]:
    return {
        topic: until_closed(
            topic, read_topic(spark, topic, schema=schema, event_time=TIMES[topic], watermark=WATERMARK)
        )
        for topic, schema in SCHEMAS.items()
    }


def until_closed(topic: str, rows: DataFrame) -> DataFrame:
    """The rows without the closing event. A filter on the event time applies after the watermark has seen it."""
    return rows.where(F.col(TIMES[topic]) < F.lit(CLOSED_AT))
