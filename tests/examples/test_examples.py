"""Every example runs by itself, ends by itself, and shows what it is there to show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 100

# The lines that make an example worth reading; the rest of what it prints may change.
SHOWS: dict[str, list[str]] = {
    "first_log.py": [
        "  stored at offset 4",
        "  4: bob saw /help",
        "group audit reads the same, undisturbed",
    ],
    "archive.py": ["on disk 0.", "a consumer reads 20000 records from offset 0 on"],
    "replay.py": [
        "from offset 3:       ['order 3', 'order 4']",
        "the last 3 minutes:  ['order 2', 'order 3', 'order 4']",
        "moved back to 1:     ['order 1', 'order 2', 'order 3', 'order 4']",
    ],
    "compacted_table.py": [
        "2 left after compaction, each at its old offset:",
        "  597: alice = 199",
        "  599: carol = 199",
    ],
    "test_with_pytest.py": ["test_order_is_published_under_its_id PASSED"],
    "follow_asyncio.py": ["kitchen: 20.5 °C", "kitchen: 21.8 °C"],
    "transactions.py": [
        "  it died amid a transaction",
        "  committed up to order 19",
        "20 of them count, for 20 orders",
    ],
    "queue_worker.py": ["told of 30 stored messages", "accepted: 27", "released: 9", "rejected: 3"],
    "dead_letters.py": [
        "  orders-0@1: could not convert string to float: '9,90'",
        "put back: 1, left: 1",
        "  order 2: charged 9.90",
    ],
    "search_index.py": [
        "  \"the log\": ['Keeping a log']",
        "  log OR logs: ['Keeping a log', 'On queues and logs']",
        "  article 1: None; 2 are left",
    ],
    "lake.py": [
        "300 orders, partitions ['2026-11-15', '2026-11-16']",
        "  DuckDB: Rome 100 orders for 1485.0",
        "  Spark:  100 orders of 20 and more",
    ],
    "plain_spark.py": [
        "the same batch again, as after a crash:\n  table: 3 orders\n  index: the best hit for 'green tomatoes' is order 3",
        "another order:\n  table: 4 orders",
        "  lake: 4 orders in 3 partitions",
        "  and Spark reads back 2 of Rome",
    ],
    "declarative_pipeline/run.py": [
        "index: 3 orders; the best hit for 'green tomatoes' is order 3",
        "lake: 2 orders of Rome",
    ],
    "overload.py": ["buffer: 5000 written", "missed records", "push back: 5000 of 5000 stored"],
}


def test_every_example_is_run_here() -> None:
    there = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*/run.py")]
    assert {path.relative_to(EXAMPLES).as_posix() for path in there} == SHOWS.keys()


@pytest.mark.parametrize("name", SHOWS)
def test_example_runs_and_shows_its_point(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    missing = [line for line in SHOWS[name] if line not in done.stdout]
    assert missing == [], done.stdout + done.stderr
