"""Commits rows at a constant rate, and looks for them in the topic and in a SQLite view. Milliseconds, p50 and p99."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.cdc.programs.latency import SILENCE_S_MAX, TOPIC, WARM_UP_S, insert, opened, read
from benchmarks.cdc.views import VIEW, VIEWS_FILE, running_views, ticks_view

POLL_S = 0.002
"""Between two looks at the view: adds half of it to a latency."""


def read_view(path: Path, count: int) -> list[float]:
    """The latency of each row, in the order of its key."""
    took_ms: list[float] = []
    last_s = time.perf_counter()
    view = sqlite3.connect(path, timeout=60)
    last_id = 0
    while len(took_ms) < count:
        rows = view.execute(f"SELECT id, at FROM {VIEW} WHERE id > ? ORDER BY id", (last_id,)).fetchall()
        now_ns = time.perf_counter_ns()
        if rows:
            last_s, last_id = time.perf_counter(), rows[-1][0]
            took_ms += [(now_ns - at) / 1e6 for _, at in rows]
        elif time.perf_counter() - last_s > SILENCE_S_MAX:
            raise SystemExit(f"{len(took_ms)} of {count} rows arrived in the view, and then none")
        else:
            time.sleep(POLL_S)
    view.close()
    return took_ms


def main(arguments: dict[str, Any]) -> dict[str, float]:
    rows, rate, folder = arguments["rows"], arguments["rate"], Path(arguments["folder"])
    warm_up = int(4 * WARM_UP_S * rate)
    in_view: list[float] = []
    with psycopg.connect(arguments["address"], autocommit=True) as connection:
        insert(connection, 1, rate)
        consumer = opened(arguments["bootstrap"])
        with running_views(ticks_view(TOPIC), folder, arguments["bootstrap"]):
            count = 1 + warm_up + rows
            inserting = threading.Thread(target=insert, args=(connection, warm_up + rows, rate), daemon=True)
            looking = threading.Thread(
                target=lambda: in_view.extend(read_view(folder / VIEWS_FILE, count)), daemon=True
            )
            inserting.start()
            looking.start()
            in_topic = read(consumer, count)
            looking.join()
            inserting.join()
        consumer.close()
    if len(in_view) != count:
        raise SystemExit("the view was not read to its end")
    figures = {}
    for name, took_ms in (("topic", in_topic), ("view", in_view)):
        counted = sorted(took_ms[1 + warm_up :])
        figures[f"{name}-p50"] = counted[len(counted) // 2]
        figures[f"{name}-p99"] = counted[len(counted) * 99 // 100]
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
