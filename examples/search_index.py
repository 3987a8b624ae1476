"""A full-text index that follows a topic: articles are added, changed and deleted, and searches see it.

python examples/search_index.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from headrace import Broker
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Search, SearchReader

FIRST = [
    {"id": 1, "title": "Streams and tables", "body": "A table is a stream, seen at one moment.", "stars": 4},
    {"id": 2, "title": "Keeping a log", "body": "The log is the simplest thing that could work.", "stars": 5},
    {"id": 3, "title": "On queues", "body": "A queue forgets what was done; a log does not.", "stars": 2},
]
THEN = [
    {"id": 3, "title": "On queues and logs", "body": "A queue forgets what was done.", "stars": 3, "op": "u"},
    {"id": 1, "op": "d"},
]


def send(bootstrap: str, articles: list[dict[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for article in articles:
        producer.produce("articles", key=str(article["id"]), value=json.dumps(article))
    producer.flush()


def show(reader: SearchReader, query: str) -> None:
    print(f"  {query}:", [hit.row["title"] for hit in reader.search(query)])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        send(broker.bootstrap, FIRST)
        spark = session("search", bootstrap=broker.bootstrap, data_dir=folder)
        articles = read_topic(
            spark, "articles", schema="id LONG, title STRING, body STRING, stars INT, op STRING"
        )
        index = Search("articles", key="id", at=Path(folder, "articles"))

        def catch_up() -> None:
            """Index the new records, and end. Without mode="batch" the job runs until it is stopped."""
            job = Job("articles", articles, index, mode="batch").start()
            assert job.wait(90), "the job still runs"

        catch_up()
        reader = index.reader()
        print("after the first articles:")
        show(reader, "log")
        show(reader, '"the log"')
        show(reader, "title:queues OR stars:[4 TO 5]")
        send(broker.bootstrap, THEN)
        catch_up()
        print("after a change and a deletion, with the same reader:")
        show(reader, "log OR logs")
        print(f"  article 1: {reader.get(id=1)}; {reader.count()} are left")
        spark.stop()


if __name__ == "__main__":
    main()
