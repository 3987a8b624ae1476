"""Reads a view by key while nothing else happens, and then while it is rebuilt and its topic is written."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.cdc.views import VIEW, VIEWS_FILE, command, running_views, ticks_view

TOPIC = "ticks"
QUIET_S = 20.0
WRITES_PER_S = 100
READ_PAUSE_S = 0.001


def change(number: int) -> tuple[bytes, bytes]:
    row = {"id": number, "at": time.perf_counter_ns()}
    return json.dumps({"id": number}).encode(), json.dumps({"op": "c", "after": row}).encode()


def fill(bootstrap: str, rows: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(rows):
        key, value = change(number)
        while True:
            try:
                producer.produce(TOPIC, key=key, value=value)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


class Reads:
    """Look-ups by key, one after the other, and how long each took."""

    def __init__(self, path: Path, rows: int) -> None:
        self._path = path
        self._rows = rows

    def until(self, is_over: threading.Event) -> list[float]:
        view = sqlite3.connect(self._path, timeout=0)
        took_ms = []
        while not is_over.is_set():
            key = random.randrange(self._rows)
            started_s = time.perf_counter()
            found = view.execute(f"SELECT at FROM {VIEW} WHERE id = ?", (key,)).fetchone()
            took_ms.append((time.perf_counter() - started_s) * 1000)
            if found is None:
                raise SystemExit(f"row {key} was not in the view")
            time.sleep(READ_PAUSE_S)
        view.close()
        return took_ms


def write(bootstrap: str, rows: int, is_over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    while not is_over.wait(1 / WRITES_PER_S):
        key, value = change(random.randrange(rows))
        producer.produce(TOPIC, key=key, value=value)
        producer.poll(0)
    producer.flush()


def end_with(process: subprocess.Popen[bytes], is_over: threading.Event) -> None:
    process.wait()
    is_over.set()


def p99(took_ms: list[float]) -> float:
    return sorted(took_ms)[len(took_ms) * 99 // 100]


def main(arguments: dict[str, Any]) -> dict[str, float]:
    rows, folder, bootstrap = arguments["rows"], Path(arguments["folder"]), arguments["bootstrap"]
    fill(bootstrap, rows)
    with running_views(ticks_view(TOPIC), folder, bootstrap):
        reads = Reads(folder / VIEWS_FILE, rows)
        is_over = threading.Event()
        threading.Timer(QUIET_S, is_over.set).start()
        quiet_ms = reads.until(is_over)
        is_over = threading.Event()
        writing = threading.Thread(target=write, args=(bootstrap, rows, is_over), daemon=True)
        writing.start()
        started_s = time.perf_counter()
        rebuild = subprocess.Popen(
            command("rebuild", VIEW, "--bootstrap", bootstrap, "--data-dir", str(folder)),
            stdout=sys.stderr,
        )
        threading.Thread(target=end_with, args=(rebuild, is_over), daemon=True).start()
        busy_ms = reads.until(is_over)
        rebuild_s = time.perf_counter() - started_s
        writing.join()
    if rebuild.returncode != 0:
        raise SystemExit(f"the rebuild ended with code {rebuild.returncode}")
    return {"quiet-p99": p99(quiet_ms), "rebuild-p99": p99(busy_ms), "rows-per-s": rows / rebuild_s}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
