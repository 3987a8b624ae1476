"""A process with a job for every sink there is, to be killed: `python -m tests.faults.sink_jobs PLACES.json`.

With names after it, only the jobs of those names. All jobs read one topic and drain it. What each target and each
dead-letter topic must hold in the end follows from the topic alone.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.dead_letters import dead_letter_topic
from headrace.pipeline.sinks import Delta, Each, Redis, Search, Table, Topic
from headrace.pipeline.sinks.sink import Sink
from headrace.testing.faults import kill_as_environment_says
from tests.compatibility.topic_contents import read_committed
from tests.pipeline.journal_sink import Journal, rows_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipeline.run.supervisor import RunningJob

Row = dict[str, Any]
STARTED = "started"
LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the jobs read and write. The folder is theirs alone."""

    bootstrap: str
    topic: str
    folder: str
    postgres: str
    redis: str

    @property
    def path(self) -> Path:
        return Path(self.folder)

    def job(self, name: str) -> str:
        return f"{self.topic}-{name}"

    def letters(self, name: str) -> list[str]:
        topic = dead_letter_topic(self.job(name))
        return [message.value().decode() for message in read_committed(self.bootstrap, topic)]

    def save(self) -> Path:
        saved = self.path / "places.json"
        saved.write_text(json.dumps(asdict(self)))
        return saved


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkJob:
    sink: Sink
    read: Callable[[], list[Row]]
    is_counting: bool = False
    """counts by user, with state, rather than passing rows on"""
    may_repeat: bool = False
    """the sink promises at least once, and no more"""

    def rows(self, orders: DataFrame) -> DataFrame:
        return orders.groupBy("user").count() if self.is_counting else orders

    def expected(self, orders: list[Row]) -> list[Row]:
        if not self.is_counting:
            return ordered(orders)
        return ordered(
            [{"user": user, "count": count} for user, count in Counter(o["user"] for o in orders).items()]
        )

    def found(self) -> list[Row]:
        rows = ordered(self.read())
        if self.may_repeat:
            return [row for position, row in enumerate(rows) if position == 0 or rows[position - 1] != row]
        return rows


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def sink_jobs(places: Places) -> dict[str, SinkJob]:
    """A job for every sink, by its name; where a sink can append it does, because that shows what came twice."""
    folder, topic = places.path, places.topic
    by_driver, by_spark, by_tasks = (f"{topic}-by-{writer}" for writer in ("driver", "spark", "tasks"))
    index, delta = Search("orders", at=folder / "index"), Delta("orders", at=folder / "delta")
    delta_by_tasks = Delta("by_tasks", at=folder / "delta-by-tasks", driver_rows_max=0)
    written = folder / "each.jsonl"
    return {
        "journal": SinkJob(
            sink=Journal(folder / "journal.db", key="user"),
            read=lambda: rows_in(folder / "journal.db"),
            is_counting=True,
        ),
        "topic": SinkJob(
            sink=Topic(by_driver, key="user"), read=lambda: committed(places.bootstrap, by_driver)
        ),
        "topic-by-spark": SinkJob(
            sink=Topic(by_spark, key="user", guarantee="at-least-once"),
            read=lambda: committed(places.bootstrap, by_spark),
            may_repeat=True,
        ),
        "topic-by-tasks": SinkJob(
            sink=Topic(by_tasks, key="user", driver_rows_max=0),
            read=lambda: committed(places.bootstrap, by_tasks),
        ),
        "table-sqlite": SinkJob(
            sink=Table("orders", at=folder / "views.db"),
            read=lambda: sqlite_rows(folder / "views.db", "SELECT user, n FROM orders"),
        ),
        "table-sqlite-upsert": SinkJob(
            sink=Table("by_user", key="user", at=folder / "counts.db"),
            read=lambda: sqlite_rows(folder / "counts.db", "SELECT user, count FROM by_user"),
            is_counting=True,
        ),
        "table-postgres": SinkJob(
            sink=Table("orders", at=places.postgres),
            read=lambda: postgres_rows(places.postgres, 'SELECT "user", n FROM orders'),
        ),
        "table-postgres-by-tasks": SinkJob(
            sink=Table("staged", at=places.postgres, driver_rows_max=0),
            read=lambda: postgres_rows(places.postgres, 'SELECT "user", n FROM staged'),
        ),
        "redis": SinkJob(
            sink=Redis(topic, key="n", at=places.redis), read=lambda: redis_rows(places.redis, topic)
        ),
        "redis-by-tasks": SinkJob(
            sink=Redis(f"{topic}-by-tasks", key="n", at=places.redis, driver_rows_max=0),
            read=lambda: redis_rows(places.redis, f"{topic}-by-tasks"),
        ),
        "search": SinkJob(sink=index, read=lambda: index_rows(index)),
        "delta": SinkJob(sink=delta, read=lambda: delta_rows(delta)),
        "delta-by-tasks": SinkJob(sink=delta_by_tasks, read=lambda: delta_rows(delta_by_tasks)),
        "each": SinkJob(
            sink=Each(lambda row, _fence: append_line(written, {"user": row["user"], "n": row["n"]})),
            read=lambda: [json.loads(line) for line in written.read_text().splitlines()],
            may_repeat=True,
        ),
    }


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    with path.open("a") as stream:
        stream.write(json.dumps(row) + "\n")


def committed(bootstrap: str, topic: str) -> list[Row]:
    return [json.loads(message.value()) for message in read_committed(bootstrap, topic)]


def sqlite_rows(path: Path, query: str) -> list[Row]:
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(query)]


def postgres_rows(address: str, query: str) -> list[Row]:
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(address, row_factory=dict_row) as connection:
        return connection.execute(query).fetchall()


def redis_rows(address: str, name: str) -> list[Row]:
    import redis

    with redis.Redis.from_url(address, decode_responses=True) as client:
        hashes = [client.hgetall(key) for key in client.scan_iter(f"{name}:*", _type="hash")]
    return [{"user": row["user"], "n": int(row["n"])} for row in hashes if "n" in row]


def index_rows(index: Search) -> list[Row]:
    reader = index.reader()
    found: list[Row] = []
    while hits := reader.search("*", limit=1_000, offset=len(found)):
        found.extend(dict(hit.row) for hit in hits)
    return found


def delta_rows(delta: Delta) -> list[Row]:
    return list(delta.table().to_pyarrow_table().select(["user", "n"]).to_pylist())


def main(places_file: str, *names: str) -> None:
    from headrace.pipeline import Job, read_topic, session

    kill_as_environment_says()
    places = Places(**json.loads(Path(places_file).read_text()))
    spark = session(
        "sinks",
        master="local[2]",
        bootstrap=places.bootstrap,
        data_dir=places.path / "data",
        conf={"spark.driver.memory": "1g"},
    )
    orders = read_topic(spark, places.topic, schema="user STRING, n INT").select("user", "n")
    running = [
        Job(places.job(name), job.rows(orders), job.sink, mode="batch").start()
        for name, job in sink_jobs(places).items()
        if name in names or not names
    ]
    print(STARTED, flush=True)
    wait_for_all(running)
    spark.stop()


def wait_for_all(running: list[RunningJob]) -> None:
    """Raises as soon as one has failed: the others may wait for it at a fault."""
    while running:
        running = [job for job in running if not job.wait(LOOK_S)]


if __name__ == "__main__":
    main(*sys.argv[1:])
