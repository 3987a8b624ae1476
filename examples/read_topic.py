"""Topics as DataFrames: a topic with some bad records, read once as a stream and once as bounded rows.

python examples/read_topic.py

Bad records do not stop the job. They go to a dead-letter topic, with their original bytes and the reason.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

SCHEMA = "user STRING NOT NULL, url STRING, at TIMESTAMP"
CLICKS = [
    '{"user": "ann", "url": "/shop", "at": "2026-03-01T10:00:00Z"}',
    '{"user": "bob", "url": "/about", "at": "yesterday"}',
    '{"user": "ann", "url": "/shop/7", "at": "2026-03-01T10:00:09Z"}',
    '{"url": "/shop", "at": "2026-03-01T10:00:11Z"}',
    "user=carl url=/shop",
    '{"user": "dora", "url": "/shop", "at": "2026-03-01T10:00:12Z"}',
]


def write(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for click in CLICKS:
        producer.produce("clicks", value=click)
    producer.flush()


def show_dead_letters(bootstrap: str, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "anybody"})
    consumer.assign([TopicPartition("dlq.clicks", 0, 0)])
    for letter in consumer.consume(count, timeout=30):
        headers = {name: text.decode() for name, text in letter.headers()}
        print(f"  clicks@{headers['__dlq.errors.offset']}: {headers['__dlq.errors.message']}")
    consumer.close()


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        write(broker.bootstrap)
        spark = session("read-topic", bootstrap=broker.bootstrap, data_dir=folder)

        clicks = read_topic(spark, "clicks", schema=SCHEMA, event_time="at", watermark="10 minutes")
        running = Job("clicks", clicks, Table("clicks"), mode="batch").start()
        running.wait()
        status = running.status()
        print(f"the stream: {status.rows_in} records, {status.dead_letters} of them dead letters")
        show_dead_letters(broker.bootstrap, status.dead_letters)

        last = read_topic(spark, "clicks", schema=SCHEMA, start={"clicks": {0: 2}}, bounded=True)
        print("bounded, from offset 2 on:")
        for row in last.select("_offset", "user", "url").collect():
            print(f"  {row['_offset']}: {row['user']} saw {row['url']}")
        spark.stop()
        print("Spark's own log was in", Path(folder, "log", "spark-read-topic.log").name)


if __name__ == "__main__":
    main()
