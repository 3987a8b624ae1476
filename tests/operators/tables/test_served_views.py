"""The two examples as a job runs them: from topics to tables and to Redis, beside plain Python."""

from __future__ import annotations

import json
import random
import runpy
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest
import redis
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline import Job
from headrace.pipeline.sinks import Redis, Table
from headrace.pipeline.sinks.sink import Sink
from headrace.testing.redis_server import RedisServer

EXAMPLES = Path(__file__).parents[3] / "examples"
WAIT_S = 280.0
NEWEST = 4

pytestmark = pytest.mark.timeout(600)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name))


def create_topics(bootstrap: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for created in admin.create_topics([NewTopic(topic, 2, 1) for topic in topics]).values():
        created.result(60)


def drain(name: str, rows: DataFrame, sink: Sink) -> None:
    """Bounded rows, or a stream up to the current end of its topics. A stream continues from its checkpoint."""
    running = Job(name, rows, sink, mode="batch").start()
    assert running.wait(WAIT_S), f"{name} does not end"


def rows_of(file: Path, table: str, columns: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(file) as views:
        return views.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}").fetchall()


class NetworkNow:
    """The current posts and followers, and their changes in the topics."""

    def __init__(self, network: Any, seed: int) -> None:
        self._network = network
        self._random = random.Random(seed)
        self.posts: dict[int, tuple[str, str, int]] = {}
        self.follows: set[tuple[str, str]] = set()

    def live(self, steps: int) -> None:
        people = ["ann", "bob", "cleo", "dora"]
        for _ in range(steps):
            what = self._random.choice(
                ["post", "post", "post", "edit", "delete", "follow", "follow", "unfollow"]
            )
            user, other = self._random.sample(people, 2)
            if what in ("post", "edit"):
                known = what == "edit" and self.posts
                post = self._random.choice(sorted(self.posts)) if known else self._random.randrange(10**6)
                text, at = f"text {self._random.randrange(100)}", self._random.randrange(1_000)
                self.posts[post] = (user, text, at)
                self._network.post(post, user, text, at=at)
            elif what == "delete" and self.posts:
                post = self._random.choice(sorted(self.posts))
                del self.posts[post]
                self._network.delete(post)
            elif what == "follow":
                self.follows.add((user, other))
                self._network.follow(user, other)
            elif what == "unfollow":
                self.follows.discard((user, other))
                self._network.follow(user, other, stop=True)
        self._network.flush()

    def timelines(self) -> dict[str, list[tuple[int, int, str]]]:
        """Of every user (at, post, text), the newest first."""
        found = {}
        for user in sorted({user for user, _ in self.follows}):
            posts = [
                (at, post, text)
                for post, (author, text, at) in self.posts.items()
                if (user, author) in self.follows
            ]
            if posts:
                found[user] = sorted(posts, reverse=True)[:NEWEST]
        return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_home_timeline_is_right_in_a_table_at_every_restart_and_in_redis_and_bounded(
    spark: SparkSession,
    bootstrap: str,
    redis_server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX", "30")
    home_timeline = example("home_timeline.py")
    name = f"timelines_{uuid.uuid4().hex[:12]}"
    posts, follows, file = f"{name}.posts", f"{name}.follows", tmp_path / "views.db"
    create_topics(bootstrap, posts, follows)
    now = NetworkNow(home_timeline["Network"](bootstrap, posts=posts, follows=follows), seed=7)
    client: Any = redis.Redis.from_url(redis_server.address)

    def in_table(table: str) -> dict[str, list[tuple[int, int, str]]]:
        found: dict[str, list[tuple[int, int, str]]] = {}
        for user, at, post, text in rows_of(file, table, "user, at, post, text"):
            found.setdefault(user, []).append((at, post, text))
        return {user: sorted(rows, reverse=True) for user, rows in found.items()}

    def in_redis() -> dict[str, list[tuple[int, int]]]:
        found = {}
        for key in client.scan_iter(f"{name}:*"):
            members = client.zrange(key, 0, -1, withscores=True)
            found[key.decode().split(":")[1]] = sorted(
                ((int(at), int(post)) for post, at in members),
                reverse=True,
            )
        return found

    def view(*, bounded: bool = False) -> DataFrame:
        created: DataFrame = home_timeline["timelines"](
            spark, posts=posts, follows=follows, count=NEWEST, bounded=bounded
        )
        return created

    for _ in range(2):
        now.live(40)
        drain(name, view(), Table("timelines", key=["user", "post"], at=file))
        assert in_table("timelines") == now.timelines()
    expected = now.timelines()
    cache = Redis(name, key="post", per="user", score="at", at=redis_server.address)
    drain(f"{name}-redis", view(), cache)
    assert in_redis() == {user: [(at, post) for at, post, _ in rows] for user, rows in expected.items()}
    drain(f"{name}-bounded", view(bounded=True), Table("timelines_bounded", key=["user", "post"], at=file))
    assert in_table("timelines_bounded") == expected
    client.close()


@pytest.mark.slow
def test_profiles_with_settings_are_right_at_every_restart_and_bounded(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    profiles = example("profiles.py")
    name = f"profiles_{uuid.uuid4().hex[:12]}"
    file = tmp_path / "views.db"
    topics = {"users": f"{name}.users", "settings": f"{name}.settings"}
    create_topics(bootstrap, *topics.values())
    producer = Producer({"bootstrap.servers": bootstrap})
    users: dict[int, tuple[str, str]] = {}
    settings: dict[int, tuple[str, str]] = {}
    chance = random.Random(3)

    def live(steps: int) -> None:
        for _ in range(steps):
            key, is_user, goes = chance.randrange(8), chance.random() < 0.5, chance.random() < 0.3
            one, other = chance.choice(["x", "y", "z"]), chance.choice(["x", "y", "z"])
            table, columns = (
                (users, ("id", "name", "city")) if is_user else (settings, ("user_id", "language", "theme"))
            )
            if goes:
                table.pop(key, None)
            else:
                table[key] = (one, other)
            after = None if goes else dict(zip(columns, (key, one, other), strict=True))
            event = {"before": {columns[0]: key}, "after": after, "op": "d" if goes else "u"}
            producer.produce(
                topics["users" if is_user else "settings"], key=str(key), value=json.dumps(event)
            )
        producer.flush()

    def expected() -> list[tuple[Any, ...]]:
        rows = [(key, *user, *settings.get(key, (None, None))) for key, user in users.items()]
        return sorted(rows, key=lambda row: row[0])

    columns = "id, name, city, language, theme"
    for _ in range(2):
        live(40)
        drain(name, profiles["profiles"](spark, **topics), Table("profiles", key="id", at=file))
        assert rows_of(file, "profiles", columns) == expected()
    bounded = profiles["profiles"](spark, **topics, bounded=True)
    drain(f"{name}-bounded", bounded, Table("profiles_bounded", key="id", at=file))
    assert rows_of(file, "profiles_bounded", columns) == expected()
