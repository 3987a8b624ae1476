"""A process with one job that counts by user: `python -m tests.pipeline.counting_job BOOTSTRAP TOPIC FOLDER NAME`."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.pipeline import Job, read_topic, session
from tests.pipeline.journal_sink import Journal


def main(bootstrap: str, topic: str, folder: str, name: str) -> None:
    spark = session("counting", master="local[2]", bootstrap=bootstrap, data_dir=Path(folder) / "data")
    rows = read_topic(spark, topic, schema="user STRING, n INT")
    job = Job(
        name, rows.groupBy("user").count(), Journal(Path(folder) / "by-user.db", key="user"), mode="batch"
    )
    job.start().wait()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
