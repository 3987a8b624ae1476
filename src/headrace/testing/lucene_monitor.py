"""Lucene's monitor for tests and benchmarks: a second opinion on stored queries, from the jars that Maven has.

A small Java program, `LuceneMonitor.java`, registers queries and matches documents.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.java import JarSet, fetch_jars, last_lines
from headrace.testing.java import JavaTools, compiled

VERSION = "9.11.1"
"""The newest whose monitor runs on Java 17 and is on Maven with all its jars."""
JARS = JarSet(
    name=f"lucene-monitor-{VERSION}",
    dependencies=(
        f"org.apache.lucene:lucene-monitor:{VERSION}",
        f"org.apache.lucene:lucene-queryparser:{VERSION}",
    ),
)
HEAP_MB = 2048

_SOURCE = Path(__file__).with_name("LuceneMonitor.java")


class LuceneFailed(HeadraceError):
    """The monitor ended with an error."""


class Monitored(Struct, frozen=True, kw_only=True):
    register_s: float
    match_s: float
    hits: int


def monitor(
    queries: Sequence[str],
    documents: Sequence[Sequence[str]],
    columns: Sequence[str],
    folder: Path,
    *,
    batch: int = 1,
    passes: int = 1,
    threads: int = 1,
    rounds: int = 1,
    timeout_s: float = 600,
) -> tuple[Monitored, list[list[int]]]:
    """Match the documents with all queries, in the syntax of Lucene; returns the numbers of the queries of each.

    `batch` documents are matched together. The presearcher indexes each query by up to `passes` of its terms. The last
    of `rounds` is measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "queries").write_text("".join(f"{each}\n" for each in queries))
    (folder / "documents").write_text("".join("\t".join(each) + "\n" for each in documents))
    jars = fetch_jars(JARS)
    tools = JavaTools(jars=jars, heap_mb=HEAP_MB, quick_start=rounds == 1)
    files = [str(folder / name) for name in ("queries", "documents")]
    numbers = [str(each) for each in (batch, passes, threads, rounds)]
    command = tools.command("LuceneMonitor", *files, ",".join(columns), *numbers, str(folder / "hits"))
    command[command.index("-cp") + 1] += f":{compiled(_SOURCE, jars)}"
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise LuceneFailed(f"Lucene's monitor failed:\n{last_lines(done.stdout + done.stderr)}")
    lines = (folder / "hits").read_text().splitlines()
    return Monitored(**json.loads(done.stdout)), [[int(each) for each in line.split()] for line in lines]
