"""A journal whose writes fail on purpose, for tests of restarts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.sink import Reject, Sink, SinkWriter
from tests.pipeline.journal_sink import Journal

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


@dataclass(slots=True)
class Trouble:
    """How many of the next writes fail, and how many have."""

    failures_left: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class FailingJournal(Sink):
    kind: ClassVar[str] = "journal"

    journal: Journal
    trouble: Trouble = field(default_factory=Trouble)

    def target(self) -> str:
        return self.journal.target()

    def open(self, job: str, schema: StructType) -> SinkWriter:
        return _FailingWriter(self.journal.open(job, schema), self.trouble)


class _FailingWriter(SinkWriter):
    def __init__(self, writer: SinkWriter, trouble: Trouble) -> None:
        self._writer = writer
        self._trouble = trouble

    def applied(self) -> Fence | None:
        return self._writer.applied()

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        if self._trouble.failures_left > 0:
            self._trouble.failures_left -= 1
            self._trouble.failures += 1
            raise SinkUnavailable("the journal is unavailable", hint="wait")
        return self._writer.apply(rows, fence, reject)

    def clear(self) -> None:
        self._writer.clear()

    def close(self) -> None:
        self._writer.close()
