"""A process with one job from Avro to Protobuf, both with a registry, that is killed at a point:
`python -m tests.pipeline.sinks.registered.converting_job BOOTSTRAP REGISTRY TOPIC FOLDER [POINT]`."""

from __future__ import annotations

import os
import signal
import sys

from headrace.pipeline import Job, points, read_topic, session
from headrace.pipeline.sinks import Topic


def main(bootstrap: str, registry: str, topic: str, folder: str, kill_at: str = "") -> None:
    def kill(point: points.Point, _job: str) -> None:
        if point == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    points.hooks.append(kill)
    spark = session("converting", master="local[2]", bootstrap=bootstrap, registry=registry, data_dir=folder)
    rows = read_topic(spark, topic, format="avro-registry", options={"maxOffsetsPerTrigger": "40"})
    Job(
        topic, rows.select("id"), Topic(f"{topic}.out", format="protobuf-registry"), mode="batch"
    ).start().wait()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
