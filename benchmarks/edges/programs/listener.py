"""Writes events at a steady rate, each with its time, and reads them from a stream: the time between both."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Producer

from benchmarks.edges.bench import TOPIC
from benchmarks.rpc.programs.asker import percentiles

TICK_S = 0.001
WARMUP_PART = 10
"""The first tenth of the events does not count."""


def write(bootstrap: str, count: int, per_s: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    started_s, sent = time.monotonic(), 0
    while sent < count:
        due = min(count, int((time.monotonic() - started_s) * per_s))
        for _ in range(due - sent):
            producer.produce(TOPIC, json.dumps({"at_ns": time.monotonic_ns(), "user": "ann"}))
        sent = due
        producer.poll(0)
        time.sleep(TICK_S)
    producer.flush(30)


def listen(arguments: dict[str, Any]) -> dict[str, float]:
    address = urlsplit(arguments["url"])
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.request("GET", f"/topics/{TOPIC}/stream")
    response = connection.getresponse()
    assert response.status == 200
    response.readline()  # the stream is open
    count = arguments["events"]
    writer = threading.Thread(target=write, args=(arguments["bootstrap"], count, arguments["per_s"]))
    writer.start()
    times_s: list[float] = []
    while len(times_s) < count:
        line = response.readline()
        if line.startswith(b"data: "):
            now_ns = time.monotonic_ns()
            times_s.append((now_ns - json.loads(line[6:])["value"]["at_ns"]) / 1e9)
    writer.join()
    return percentiles(times_s[count // WARMUP_PART :])


if __name__ == "__main__":
    print(json.dumps(listen(json.loads(sys.argv[1]))))
