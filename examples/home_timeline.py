"""The home timeline of a social network: the newest posts of the users that each user follows, ready for look-ups.

python examples/home_timeline.py

Users write and delete posts, and follow and unfollow each other; each of these changes timelines. The timelines are
served from a table and from Redis. This example needs redis-server on this machine, and starts its own.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import redis
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Redis, Table
from headrace.testing import RedisServer

# `op` is d for a deleted post, and for an unfollow.
POSTS = "post BIGINT NOT NULL, author STRING, text STRING, at BIGINT, op STRING"
FOLLOWS = "user STRING NOT NULL, followee STRING NOT NULL, op STRING"
NEWEST = 800


def timelines(
    spark: SparkSession, *, posts: str, follows: str, count: int = NEWEST, bounded: bool = False
) -> DataFrame:
    """The newest posts for every user, as a changelog, from the topics of posts and follows."""
    posts_now = read_topic(spark, posts, schema=POSTS, bounded=bounded)
    follows_now = read_topic(spark, follows, schema=FOLLOWS, bounded=bounded)
    join = op.JoinTables(follows_now, on={"author": "followee"}, key="post", other_key=["user", "followee"])
    # The number orders posts of the same time.
    return posts_now.transform(join).transform(op.Newest(count, by="user", order=["at", "post"]))


class Network:
    """Write what users do. Messages of one key keep their order."""

    def __init__(self, bootstrap: str, *, posts: str = "posts", follows: str = "follows") -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._posts, self._follows = posts, follows

    def post(self, post: int, author: str, text: str, *, at: int) -> None:
        row = {"post": post, "author": author, "text": text, "at": at}
        self._producer.produce(self._posts, key=str(post), value=json.dumps(row))

    def delete(self, post: int) -> None:
        self._producer.produce(self._posts, key=str(post), value=json.dumps({"post": post, "op": "d"}))

    def follow(self, user: str, followee: str, *, stop: bool = False) -> None:
        row = {"user": user, "followee": followee, "op": "d" if stop else "c"}
        self._producer.produce(self._follows, key=f"{user} {followee}", value=json.dumps(row))

    def flush(self) -> None:
        self._producer.flush()


def show(folder: Path, client: Any, user: str) -> None:
    with sqlite3.connect(folder / "views.db") as views:
        query = "SELECT author, text FROM timelines WHERE user = ? ORDER BY at DESC, post DESC"
        for author, text in views.execute(query, [user]):
            print(f"  {author}: {text}")
    posts = [int(post) for post in client.zrevrange(f"timeline:{user}", 0, -1)]
    print(f"  in Redis: {posts}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker() as broker, RedisServer() as server:
        spark = session("home-timeline", bootstrap=broker.bootstrap, data_dir=folder)
        network = Network(broker.bootstrap)

        def catch_up() -> None:
            """Process the new records, and end. Without mode="batch" the jobs run until they are stopped."""
            network.flush()
            view = timelines(spark, posts="posts", follows="follows")
            cache = Redis("timeline", key="post", per="user", score="at", at=server.address)
            Job("timelines", view, Table("timelines", key=["user", "post"]), mode="batch").start().wait()
            Job("timelines-in-redis", view, cache, mode="batch").start().wait()

        with redis.Redis.from_url(server.address) as client:
            network.follow("dora", "ann")
            network.follow("dora", "bob")
            network.post(1, "ann", "good morning", at=100)
            network.post(2, "bob", "hello", at=200)
            network.post(3, "cleo", "is anybody here?", at=300)
            catch_up()
            print("dora follows ann and bob:")
            show(Path(folder), client, "dora")

            network.follow("dora", "cleo")
            network.follow("dora", "bob", stop=True)
            network.delete(1)
            network.post(4, "ann", "good evening", at=400)
            catch_up()
            print("now cleo too, and bob no more; ann has deleted a post and written another one:")
            show(Path(folder), client, "dora")
        spark.stop()


if __name__ == "__main__":
    main()
