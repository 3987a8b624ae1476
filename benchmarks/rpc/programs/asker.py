"""Clicks at a steady rate until its input ends, and asks one question after the other: a process beside the job's."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer

from benchmarks.measurements import Side
from headrace.questions import Questions

WAIT_S = 120.0
TICK_S = 0.01


def percentiles(times_s: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    ordered = sorted(times_s)
    return {"p50": ordered[len(ordered) // 2] * 1e3, "p99": ordered[len(ordered) * 99 // 100] * 1e3}


def wait_for(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline_s, "it takes too long"
        time.sleep(TICK_S)


def click(bootstrap: str, urls: int, per_s: int, ended: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    choose = random.Random(0)
    started_s, sent = time.monotonic(), 0
    while not ended.wait(TICK_S):
        due = int((time.monotonic() - started_s) * per_s)
        for _ in range(due - sent):
            producer.produce("clicks", json.dumps({"url": f"/{choose.randrange(urls)}"}))
        sent = due
        producer.poll(0)
    producer.flush(10)


def ask(arguments: dict[str, Any]) -> dict[str, float]:
    times = []
    with Questions(arguments["bootstrap"]) as questions:
        for number in range(-arguments["warmup"], arguments["questions"]):
            before_s = time.perf_counter()
            answer = questions.ask("count", {"url": f"/{number % arguments['urls']}"}, timeout_s=30)
            if number >= 0:
                times.append(time.perf_counter() - before_s)
            assert answer.value >= 1
            assert not answer.is_partial
    return percentiles(times)


def main(arguments: dict[str, Any]) -> None:
    ended = threading.Event()
    clicks = threading.Thread(
        target=click, args=(arguments["bootstrap"], arguments["urls"], arguments["clicks_per_s"], ended)
    )
    clicks.start()
    try:
        if arguments["side"] == Side.HEADRACE:
            print(json.dumps(ask(arguments)), flush=True)
        sys.stdin.read()
    finally:
        ended.set()
        clicks.join()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
