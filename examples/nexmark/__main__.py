"""Run a query of Nexmark and show its result.

python -m examples.nexmark                lists the queries
python -m examples.nexmark q5             on bounded rows
python -m examples.nexmark q5 --stream    as a job that reads topics of an embedded broker and writes a table
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from examples.nexmark.queries import QUERIES, Query
from examples.nexmark.streams import bounded, read_topics, write_topics
from headrace import Broker
from headrace.pipeline import Job, session
from headrace.pipeline.sinks import Table

ROWS_SHOWN = 20


def run_bounded(query: Query) -> None:
    spark = session("nexmark")
    result = query(bounded(spark)).drop("op", "pane", "revision", "watermark")
    show(result.columns, [tuple(row.values()) for row in result.toArrow().to_pylist()])
    spark.stop()


def run_stream(name: str, query: Query) -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        write_topics(broker.bootstrap)
        spark = session("nexmark", bootstrap=broker.bootstrap, data_dir=folder)
        result = query(read_topics(spark)).drop("pane", "revision", "watermark")
        Job(name, result, Table(name, key=query.key), mode="batch").start().wait()
        with closing(sqlite3.connect(Path(folder) / "views.db")) as views:
            found = views.execute(f"SELECT * FROM {name}")
            show([column[0] for column in found.description], found.fetchall())
        spark.stop()


def show(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    lines = [list(names), *sorted([text(each) for each in row] for row in rows)[:ROWS_SHOWN]]
    widths = [max(len(line[number]) for line in lines) for number in range(len(names))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    print(f"{len(rows)} rows" + (f", the first {ROWS_SHOWN} of them shown" if len(rows) > ROWS_SHOWN else ""))


def text(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S.%fZ}" if isinstance(value, datetime) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.nexmark")
    parser.add_argument("query", nargs="?", choices=QUERIES)
    parser.add_argument("--stream", action="store_true", help="read topics, as a job")
    chosen = parser.parse_args()
    if chosen.query is None:
        for name, query in QUERIES.items():
            print(f"{name:4} {query.function.__doc__}")
    elif chosen.stream:
        run_stream(chosen.query, QUERIES[chosen.query])
    else:
        run_bounded(QUERIES[chosen.query])


if __name__ == "__main__":
    main()
