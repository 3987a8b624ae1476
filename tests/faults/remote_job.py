"""A process with a windowed job whose checkpoint is in another file system, to be killed.

    python -m tests.faults.remote_job BOOTSTRAP FOLDER TOPIC CHECKPOINT [MASTER [DATA_DIR]]

Without a checkpoint (an empty text) it is in DATA_DIR, which is FOLDER/data by default.

The job counts by user and minute, keeps late rows in the topic `TOPIC.late`, and sends records that cannot be parsed to
`TOPIC.dead`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace import operators as op
from headrace.testing.faults import kill_as_environment_says
from tests.pipeline.journal_sink import Journal

ON_CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    # The workers have the same address, and Spark would read the other one's files instead of asking for them.
    "spark.shuffle.readHostLocalDisk": "false",
    # Both workers take part, even if one of them starts slowly.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}

SCHEMA = "user STRING, at TIMESTAMP, n INT"


def counts(spark: SparkSession, topic: str) -> DataFrame:
    from headrace.pipeline import read_topic

    rows = read_topic(spark, topic, schema=SCHEMA, event_time="at", watermark="10 seconds")
    per_minute = op.Tumbling(
        "1 minute", by="user", aggregate={"sum": "sum(n)"}, late=op.SideOutput(f"{topic}.late")
    )
    return rows.transform(per_minute).select("user", "window_start", "sum")


def main(
    bootstrap: str, folder: str, topic: str, checkpoint: str, master: str = "local[2]", data_dir: str = ""
) -> None:
    from headrace.pipeline import Job, session

    kill_as_environment_says()
    spark = session(
        "remote",
        master=master,
        bootstrap=bootstrap,
        data_dir=data_dir or Path(folder) / "data",
        conf=None if master.startswith("local") else ON_CLUSTER,
    )
    if not master.startswith("local"):
        require_hidden(spark, folder)
    job = Job(
        topic,
        counts(spark, topic),
        Journal(Path(folder) / "journal.db"),
        mode="batch",
        checkpoint=checkpoint or None,
        dead_letters=f"{topic}.dead",
    )
    job.start().wait()
    spark.stop()


def require_hidden(spark: SparkSession, folder: str) -> None:
    """Fail if a worker sees the folder of the driver: then the test would show nothing."""
    seen = (
        spark.sparkContext.parallelize(range(4), 4).map(lambda _: os.path.exists(f"{folder}/data")).collect()
    )
    assert not any(seen), seen
    assert os.path.exists(f"{folder}/data")


if __name__ == "__main__":
    main(*sys.argv[1:])
