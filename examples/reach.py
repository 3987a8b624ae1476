"""The reach of a URL: how many people saw it, because they follow someone who posted it.

python examples/reach.py

The job joins posts with followers and keeps both in its state, by author. A question goes to every partition: each
returns the followers of its authors who posted the URL, and the answer counts all of them once.
"""

from __future__ import annotations

import json
import tempfile
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, answers, read_topic, session
from headrace.pipeline.sinks import Topic
from headrace.questions import BadQuestion, Questions

POSTS = {"ann": ["https://example.org"], "bob": ["https://example.org"], "cat": ["https://example.net"]}
FOLLOWERS = {"ann": ["dora", "emil", "fay"], "bob": ["emil", "gus"], "cat": ["hal"]}


@answers("reach")
class Reach:
    def partial(self, state: pa.Table, question: dict[str, Any]) -> set[str] | None:
        posts = state.filter(pc.equal(state["url"], question["url"]))
        authors = posts["author"].combine_chunks()
        of_authors = state.filter(pc.is_in(state["other.author"], value_set=authors))
        return set(of_authors["other.follower"].to_pylist()) or None

    def combine(self, partials: list[set[str]], question: dict[str, Any]) -> dict[str, int]:
        reached: set[str] = set().union(*partials)
        return {"reach": len(reached)}


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for author, urls in POSTS.items():
        for url in urls:
            producer.produce("posts", key=author, value=json.dumps({"author": author, "url": url}))
    for author, followers in FOLLOWERS.items():
        for follower in followers:
            producer.produce(
                "follows", key=author, value=json.dumps({"author": author, "follower": follower})
            )
    producer.flush()


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        produce(broker.bootstrap)
        spark = session("reach", bootstrap=broker.bootstrap, data_dir=folder)
        posts = read_topic(spark, "posts", schema="author STRING, url STRING").select("author", "url")
        follows = read_topic(spark, "follows", schema="author STRING, follower STRING")
        seen = posts.transform(op.JoinTables(follows.select("author", "follower"), on="author"))
        job = Job("seen", seen, Topic("seen", key="author"), answers=[Reach]).start()

        with Questions(broker.bootstrap) as questions:
            while (
                answer := questions.ask("reach", {"url": "https://example.org"}, timeout_s=30)
            ).batch_id is None:
                time.sleep(0.1)  # the first batch is running
            print(f"reach of https://example.org: {answer.value['reach']}")
            nowhere = questions.ask("reach", {"url": "https://nowhere.example"})
            print(f"reach of https://nowhere.example: {nowhere.value['reach']}")
            rows = questions.ask("state.seen", {"key": {"author": "cat"}}).value["rows"]
            print(f"cat posted {[row['url'] for row in rows]}")
            try:
                questions.ask("reach", "https://example.org")
            except BadQuestion as error:
                print(f"rejected: {error.message}")
        job.stop()
        spark.stop()


if __name__ == "__main__":
    main()
