"""A data folder with views over topics of a real broker, which tests create, run and rebuild."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from msgspec.structs import replace
from pyspark.sql import SparkSession

from headrace.kafka.cluster import Cluster
from headrace.views.catalog import ViewFolder, Views
from headrace.views.comparison import Comparison
from headrace.views.definition import Definition
from headrace.views.rebuild import Rebuild, RebuildOptions
from headrace.views.rows import with_columns
from headrace.views.runner import ViewRun, run_views
from headrace.views.version_jobs import VersionJobs
from tests.views.topics import create_topic

WAIT_S_MAX = 120.0
"""A hang is a failure."""

COLUMNS = "id BIGINT NOT NULL, city STRING"


class ViewHouse:
    def __init__(self, data_dir: Path, bootstrap: str, spark: SparkSession, prefix: str) -> None:
        self.views = Views(data_dir)
        self.cluster = Cluster(bootstrap, timeout_s=30)
        self.spark = spark
        self.topic = f"{prefix}.public.users"
        create_topic(self.cluster, self.topic, partitions=2)
        self._producer = Producer({"bootstrap.servers": bootstrap})

    # Topics

    def change(self, *rows: Mapping[str, Any], op: str = "u", topic: str | None = None) -> None:
        for row in rows:
            sides = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
            value = json.dumps({"op": op, **sides, "ts_ms": 1, "source": {"ts_ms": 1}})
            self._producer.produce(topic or self.topic, key=json.dumps({"id": row["id"]}), value=value)
        self._producer.flush()

    def send_bad(self) -> None:
        self._producer.produce(self.topic, key="bad", value="not a change")
        self._producer.flush()

    # Views

    def create(self, name: str = "users", **fields: Any) -> ViewFolder:
        topic = fields.pop("topic", self.topic)
        definition = Definition(
            **{"name": name, "topics": (topic,), "key": ("id",), "schemas": {topic: COLUMNS}, **fields}
        )
        return self.views.create(with_columns(definition, self.cluster)[0])

    def run_once(self, *names: str) -> list[ViewRun]:
        runs = [self._run(name, once=True) for name in names or self.views.names()]
        run_views(
            runs, is_stopping=lambda: False, show=lambda _statuses: None, pause=lambda: time.sleep(0.05)
        )
        return runs

    @contextmanager
    def running(self, *names: str) -> Iterator[list[ViewRun]]:
        """The views run beside the test, until the end of the context."""
        runs = [self._run(name, once=False) for name in names]
        is_over = threading.Event()

        def pause() -> None:
            is_over.wait(0.05)

        thread = threading.Thread(
            target=run_views,
            args=(runs,),
            kwargs={"is_stopping": is_over.is_set, "show": lambda _statuses: None, "pause": pause},
        )
        thread.start()
        try:
            yield runs
        finally:
            is_over.set()
            thread.join(WAIT_S_MAX)
            assert not thread.is_alive()

    def _run(self, name: str, *, once: bool) -> ViewRun:
        return ViewRun(self.views.folder(name), self.spark, self.cluster, once=once)

    def rebuild(
        self, *names: str, change: Mapping[str, Any] | None = None, **options: bool
    ) -> dict[str, Comparison]:
        folders = [self.views.folder(name) for name in names or ("users",)]
        definitions = {
            folder: with_columns(replace(folder.record().definition, **(change or {})), self.cluster)[0]
            for folder in folders
        }
        jobs = VersionJobs(self.spark, self.cluster, show=lambda _progress: None, is_stopping=lambda: False)
        return Rebuild(definitions, jobs=jobs, cluster=self.cluster, options=RebuildOptions(**options)).run()

    # What readers have

    def rows(self, name: str = "users", database: str = "views.db") -> dict[int, str]:
        """As any program reads them."""
        with closing(sqlite3.connect(self.views.data_dir / database)) as connection:
            return dict(connection.execute(f"SELECT id, city FROM {name}").fetchall())

    def tables(self) -> list[str]:
        with closing(sqlite3.connect(self.views.data_dir / "views.db")) as connection:
            return [
                name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]

    def execute(self, statement: str) -> None:
        with closing(sqlite3.connect(self.views.data_dir / "views.db", timeout=30)) as connection, connection:
            connection.execute(statement)

    def await_rows(self, rows: dict[int, str], name: str = "users") -> None:
        deadline_s = time.monotonic() + WAIT_S_MAX
        found: Any = None
        while time.monotonic() < deadline_s:
            try:
                found = self.rows(name)
            except sqlite3.OperationalError as error:
                found = error
            if found == rows:
                return
            time.sleep(0.1)
        raise AssertionError(f"{name} has {found}, and not {rows}")


def user(number: int, city: str = "Oslo") -> dict[str, Any]:
    return {"id": number, "city": city}
