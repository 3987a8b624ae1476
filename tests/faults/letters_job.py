"""A job over a topic with bad records, in a process that `test_letters_killed.py` lets die: TOPIC BOOTSTRAP FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.pipeline import Job, read_topic, session
from tests.pipeline.journal_sink import Journal


def main() -> None:
    topic, bootstrap, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = session("letters", master="local[1]", bootstrap=bootstrap, data_dir=folder)
    rows = read_topic(spark, topic, schema="n INT NOT NULL").select("n")
    Job(topic, rows, Journal(folder / "journal.db"), mode="batch").start().wait()
    spark.stop()


if __name__ == "__main__":
    main()
