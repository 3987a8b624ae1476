"""Two tables as one view: profiles with their settings, kept up to date by the changes of both.

python examples/profiles.py

A database emits change events of its tables `users` and `settings` (in Debezium's format). The view has a row for each
user, with or without settings; a page looks it up without a query to the database.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

USERS = "id BIGINT NOT NULL, name STRING, city STRING"
SETTINGS = "user_id BIGINT NOT NULL, language STRING, theme STRING"


def profiles(spark: SparkSession, *, users: str, settings: str, bounded: bool = False) -> DataFrame:
    """The view, as a changelog, from the topics of the two tables."""
    users_now = read_topic(spark, users, format="changes", schema=USERS, bounded=bounded)
    settings_now = read_topic(spark, settings, format="changes", schema=SETTINGS, bounded=bounded)
    return users_now.transform(
        op.JoinTables(settings_now, on={"id": "user_id"}, how="left", key="id", other_key="user_id")
    )


def change(producer: Producer, topic: str, key: int, after: dict[str, Any] | None) -> None:
    """A change event: the current row, or a delete."""
    before = {"id": key} if topic == "users" else {"user_id": key}
    event = {"before": before, "after": after, "op": "u" if after else "d"}
    producer.produce(topic, key=str(key), value=json.dumps(event))


def show(folder: Path) -> None:
    with sqlite3.connect(folder / "views.db") as views:
        for name, city, language, theme in views.execute(
            "SELECT name, city, language, theme FROM profiles ORDER BY id"
        ):
            print(f"  {name} in {city}: language {language}, theme {theme}")


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session("profiles", bootstrap=broker.bootstrap, data_dir=folder)
        producer = Producer({"bootstrap.servers": broker.bootstrap})

        def catch_up() -> None:
            """Process the new records, and end. Without mode="batch" the job runs until it is stopped."""
            producer.flush()
            view = profiles(spark, users="users", settings="settings")
            Job("profiles", view, Table("profiles", key="id"), mode="batch").start().wait()

        change(producer, "users", 1, {"id": 1, "name": "Ann", "city": "Oslo"})
        change(producer, "users", 2, {"id": 2, "name": "Bob", "city": "Rome"})
        change(producer, "users", 3, {"id": 3, "name": "Cleo", "city": "Lima"})
        change(producer, "settings", 1, {"user_id": 1, "language": "no", "theme": "dark"})
        catch_up()
        print("three users, one of whom has settings:")
        show(Path(folder))

        change(producer, "users", 1, {"id": 1, "name": "Ann", "city": "Bergen"})
        change(producer, "settings", 1, None)
        change(producer, "settings", 2, {"user_id": 2, "language": "it", "theme": "light"})
        change(producer, "users", 3, None)
        catch_up()
        print("one has moved and reset the settings, one has settings, one is deleted:")
        show(Path(folder))
        spark.stop()


if __name__ == "__main__":
    main()
