"""The smallest sink that fulfils the contract: rows and fence in one transaction of an SQLite file.

For tests of jobs that do not depend on a certain sink.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.sink import Reject, RejectedRow, Sink, SinkWriter

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Journal(Sink):
    """Appends every row that it is given, or keeps the last one of each key."""

    kind: ClassVar[str] = "journal"

    path: Path
    key: str | None = None
    rejects: str | None = None
    """rows that have this text anywhere are rejected"""

    def target(self) -> str:
        return f"journal {self.path.name}"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        return JournalWriter(self, job)


class JournalWriter(SinkWriter):
    def __init__(self, sink: Journal, job: str) -> None:
        self._sink = sink
        self._job = job
        # Threads of Spark write batches, one at a time.
        self._database = sqlite3.connect(sink.path, isolation_level=None, check_same_thread=False, timeout=60)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS fences (job TEXT PRIMARY KEY, fence TEXT)")
        self._database.execute("CREATE TABLE IF NOT EXISTS rows (key TEXT, row TEXT, batch INTEGER)")
        if sink.key is not None:
            self._database.execute("CREATE UNIQUE INDEX IF NOT EXISTS by_key ON rows (key)")

    def applied(self) -> Fence | None:
        found = self._database.execute("SELECT fence FROM fences WHERE job = ?", [self._job]).fetchone()
        return Fence.from_json(found[0]) if found else None

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        applied = self.applied()
        if applied is not None and applied.covers(fence):
            return 0
        dicts = [row for batch in rows for row in batch.to_pylist()]
        rejected = [row for row in dicts if self._sink.rejects is not None and self._sink.rejects in str(row)]
        if rejected:
            reject([RejectedRow(row=row, reason=f"it has {self._sink.rejects} in it") for row in rejected])
        accepted = [row for row in dicts if row not in rejected]
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._database.executemany(
                "INSERT OR REPLACE INTO rows (key, row, batch) VALUES (?, ?, ?)",
                [(self._key(row), json.dumps(row, default=str), fence.batch_id) for row in accepted],
            )
            self._database.execute(
                "INSERT OR REPLACE INTO fences VALUES (?, ?)", [self._job, fence.to_json()]
            )
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        return len(accepted)

    def clear(self) -> None:
        self._database.execute("DELETE FROM rows")
        self._database.execute("DELETE FROM fences WHERE job = ?", [self._job])

    def close(self) -> None:
        self._database.close()

    def _key(self, row: dict[str, Any]) -> str | None:
        return None if self._sink.key is None else str(row[self._sink.key])


def rows_in(path: Path) -> list[dict[str, Any]]:
    """The rows of the journal, in an order that does not depend on when they were written."""
    with closing(sqlite3.connect(path, timeout=60)) as database:
        texts: Sequence[tuple[str]] = database.execute("SELECT row FROM rows").fetchall()
    return sorted((json.loads(text) for (text,) in texts), key=lambda row: json.dumps(row, sort_keys=True))
