"""Alerts on news: saved searches that every article is matched with, and that change while articles arrive.

python examples/news_alerts.py

The searches are a compacted topic. Ann searches for tea; Bob changes his mind; Cleo's search can't be parsed, and is a
dead letter that does not affect the others. Each article meets the searches as they were at its time, and a search has
at most two alerts a day.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Each

ARTICLES = "id STRING, at TIMESTAMP, title STRING, body STRING"


def at(time: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{time}:00").replace(tzinfo=UTC)


def save(bootstrap: str, *searches: tuple[str, str, str | None]) -> None:
    """(user, time, query); None deletes the search."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for user, time, query in searches:
        value = None if query is None else json.dumps({"query": query})
        producer.produce("saved_searches", key=user, value=value, timestamp=int(at(time).timestamp() * 1000))
    producer.flush()


def publish(bootstrap: str, *articles: tuple[str, str, str, str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for name, time, title, body in articles:
        article = {"id": name, "at": at(time).isoformat(), "title": title, "body": body}
        producer.produce("articles", value=json.dumps(article))
    producer.flush()


def alerts(spark: SparkSession) -> DataFrame:
    articles = read_topic(spark, "articles", schema=ARTICLES, event_time="at", watermark="0 seconds")
    search = op.SearchQueries("saved_searches", text=["title", "body"], key="user", limit=2, per="1 day")
    return articles.transform(search)


def show(hits: list[dict[str, object]]) -> None:
    for hit in sorted(hits, key=lambda each: (str(each["id"]), str(each["user"]))):
        highlights = hit["highlights"]
        assert isinstance(highlights, list)
        print(f"{hit['user']}, article {hit['id']}: {highlights[0]['text']}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        spark = session("news", bootstrap=broker.bootstrap, data_dir=Path(folder))
        hits: list[dict[str, object]] = []

        def run() -> None:
            Job("alerts", alerts(spark), Each(lambda hit, _: hits.append(hit)), mode="batch").start().wait()

        save(broker.bootstrap, ("ann", "08:00", "tea AND NOT coffee"), ("bob", "08:00", '"green tea"'))
        save(broker.bootstrap, ("cleo", "08:00", "tea AND (black"))
        publish(broker.bootstrap, ("1", "09:00", "Green tea prices rise", "A small harvest."))
        run()
        save(broker.bootstrap, ("bob", "10:00", "caf* OR shizuka~1"), ("ann", "12:30", None))
        publish(
            broker.bootstrap,
            ("2", "11:00", "Tea or coffee?", "The café has both."),
            ("3", "12:00", "Harvest in Shizuoka", "Less tea than last year."),
            ("4", "13:00", "More tea", "Nobody searches for it any more."),
            ("end", "23:59", "", ""),
        )
        run()
        show(hits)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "letters"})
        consumer.assign([TopicPartition("dlq.alerts", 0, 0)])
        letter = consumer.poll(30)
        assert letter is not None
        print(dict(letter.headers() or [])["__dlq.errors.message"].decode())
        consumer.close()
        spark.stop()


if __name__ == "__main__":
    main()
