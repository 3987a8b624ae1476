"""A job as a user would write it, for `test_spark_session.py`: MASTER BOOTSTRAP SOURCE TARGET FOLDER.

Prints where its Python ran, a line for each worker.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pyarrow as pa

from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Topic


def folder_of_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"folder": [os.getcwd()]})


def main() -> None:
    master, bootstrap, source, target, folder = sys.argv[1:]
    spark = session(
        "cluster-test",
        master=master,
        bootstrap=bootstrap,
        data_dir=folder,
        conf={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            # Both workers take part, even if one of them starts slowly.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        },
    )
    for row in spark.range(0, 2, 1, 2).mapInArrow(folder_of_worker, "folder STRING").collect():
        print(row["folder"])
    clicks = read_topic(spark, source, schema="user STRING, visits INT")
    Job("cluster-test", clicks.where("visits > 1"), Topic(target, key="user"), mode="batch").start().wait(300)
    spark.stop()


if __name__ == "__main__":
    main()
