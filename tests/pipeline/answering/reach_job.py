"""The job of the tests: who has posted a URL, and who follows them.

As a process: `python -m tests.pipeline.answering.reach_job BOOTSTRAP FOLDER NAME`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from headrace import operators as op
from headrace.pipeline import Job, answers, read_topic, session, wait_for_jobs
from headrace.pipeline.run.supervisor import RunningJob
from headrace.pipeline.sinks import Topic


class ReachOf(Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    slow_s: float = 0.0
    fails_in: str = ""


def reach_answers(name: str) -> type[Any]:
    @answers(f"reach-{name}", payload=ReachOf)
    class Reach:
        def partial(self, state: pa.Table, question: ReachOf) -> set[str] | None:
            time.sleep(question.slow_s)
            if question.fails_in in ("all", *state["author"].to_pylist()):
                raise ValueError("this partition fails")
            posts = state.filter(pc.equal(state["url"], question.url))
            by_author = pc.is_in(state["other.author"], value_set=posts["author"].combine_chunks())
            return set(state.filter(by_author)["other.follower"].to_pylist()) or None

        def combine(self, partials: list[set[str]], question: ReachOf) -> dict[str, Any]:
            reached: set[str] = set().union(*partials)
            return {"url": question.url, "reach": len(reached)}

    return Reach


def joined(spark: SparkSession, name: str) -> DataFrame:
    posts = read_topic(spark, f"posts-{name}", schema="author STRING, url STRING").select("author", "url")
    follows = read_topic(spark, f"follows-{name}", schema="author STRING, follower STRING")
    return posts.transform(op.JoinTables(follows.select("author", "follower"), on="author"))


def start(spark: SparkSession, name: str, **options: Any) -> RunningJob:
    given = {"answers": [reach_answers(name)], **options}
    return Job(name, joined(spark, name), Topic(f"reach-of-{name}", key="author"), **given).start()


def main(bootstrap: str, folder: str, name: str) -> None:
    spark = session("reach", master="local[2]", bootstrap=bootstrap, data_dir=Path(folder))
    start(spark, name)
    wait_for_jobs()


if __name__ == "__main__":
    main(*sys.argv[1:])
