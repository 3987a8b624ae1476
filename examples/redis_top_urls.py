"""The most visited urls in Redis: a sorted set from which a page reads its top ten.

python examples/redis_top_urls.py

This example needs redis-server on this machine, and starts its own.
"""

from __future__ import annotations

import json
import tempfile

import redis
from confluent_kafka import Producer

from headrace import Broker
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Redis
from headrace.testing import RedisServer

PATIENCE_S = 90


def send_clicks(bootstrap: str, counts: dict[str, int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for url, count in counts.items():
        for _ in range(count):
            producer.produce("clicks", value=json.dumps({"url": url}))
    producer.flush()


def show(client: redis.Redis) -> None:
    for url, clicks in client.zrevrange("top_urls", 0, 1, withscores=True):  # type: ignore[union-attr,misc]
        print(f"  {url.decode()}: {clicks:.0f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker() as broker, RedisServer() as server:
        spark = session("top-urls", bootstrap=broker.bootstrap, data_dir=folder)
        send_clicks(broker.bootstrap, {"/home": 5, "/cart": 3, "/help": 1})
        clicks = read_topic(spark, "clicks", schema="url STRING")
        counts = clicks.groupBy("url").count()

        def catch_up() -> None:
            """Count the new records, and end. Without mode="batch" the job runs until it is stopped."""
            cache = Redis("top_urls", key="url", score="count", at=server.address)
            job = Job("top-urls", counts, cache, mode="batch").start()
            assert job.wait(PATIENCE_S), "the job still runs"

        with redis.Redis.from_url(server.address) as client:
            catch_up()
            print("the first two:")
            show(client)
            send_clicks(broker.bootstrap, {"/help": 9})
            catch_up()
            print("and after some more clicks:")
            show(client)
        spark.stop()


if __name__ == "__main__":
    main()
