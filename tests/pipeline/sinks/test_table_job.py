"""A job from a topic of changes into PostgreSQL: a copy of the other table, and what it can't take set aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline import Job, read_topic
from headrace.pipeline.sinks import Table
from headrace.testing.postgres import PostgresServer
from tests.compatibility.topic_contents import read_to_end
from tests.pipeline.sinks.databases import Postgres

pytestmark = pytest.mark.timeout(300)

PATIENCE_S = 120.0


def change(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "ts_ms": 1_000}


def test_topic_of_changes_becomes_a_copy_of_the_table_and_rejected_rows_become_dead_letters(
    spark: SparkSession,
    topic: str,
    name: str,
    send: Callable[..., None],
    bootstrap: str,
    postgres: PostgresServer,
) -> None:
    database = Postgres(postgres.create_database(name))
    changes = read_topic(spark, topic, schema="id INT, city STRING", format="changes").drop("before")
    job = Job(name, changes, Table("people", key="id", at=database.at), mode="batch")
    rome, oslo, paris = ({"id": i, "city": city} for i, city in enumerate(("Rome", "Oslo", "Paris")))

    send(topic, *(change("c", None, each) for each in (rome, oslo, paris)))
    assert job.start().wait(PATIENCE_S)
    assert database.query("SELECT id, city FROM people ORDER BY id") == [
        (0, "Rome"),
        (1, "Oslo"),
        (2, "Paris"),
    ]

    send(
        topic,
        change("u", rome, {**rome, "city": "Roma"}),
        change("d", oslo, None),
        change("c", None, {"id": 3, "city": "a\0b"}),
        change("d", paris, None),
        change("c", None, {**paris, "city": "Lutetia"}),
    )
    done = job.start()
    assert done.wait(PATIENCE_S)
    assert database.query("SELECT id, city FROM people ORDER BY id") == [(0, "Roma"), (2, "Lutetia")]
    assert done.status().dead_letters == 1
    (letter,) = read_to_end(bootstrap, f"dlq.{name}")
    assert json.loads(letter.value())["city"] == "a\0b"
