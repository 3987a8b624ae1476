"""A job over a topic with bad records, in a process that `test_letters_killed.py` lets die.

    python -m tests.faults.letters_job TOPIC BOOTSTRAP FOLDER journal|topic

A journal is written with its fence, batch by batch; a topic by Spark itself, and letters after it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Topic
from headrace.pipeline.sinks.sink import Sink
from headrace.testing.faults import kill_as_environment_says
from tests.pipeline.journal_sink import Journal

OUT_SUFFIX = ".out"


def main() -> None:
    kill_as_environment_says()
    topic, bootstrap, folder, target = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    sinks: dict[str, Sink] = {
        "journal": Journal(folder / "journal.db"),
        "topic": Topic(topic + OUT_SUFFIX, guarantee="at-least-once"),
    }
    spark = session("letters", master="local[1]", bootstrap=bootstrap, data_dir=folder)
    rows = read_topic(spark, topic, schema="n INT NOT NULL").select("n")
    Job(topic, rows, sinks[target], mode="batch").start().wait()
    spark.stop()


if __name__ == "__main__":
    main()
