"""A sink that collects the rows of a job in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.sink import Reject, Sink, SinkWriter

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

Row = dict[str, Any]


class Collect(Sink):
    """The rows of one job, in the process of the test.

        collected = Collect()
        Job("counts", counts, collected, mode="batch").start().wait()
        assert collected.rows == [{"user": "ann", "n": 1}]

    It has a fence like every sink: a batch that runs again after a failure is not collected twice.
    """

    kind: ClassVar[str] = "collect"

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}
        """The rows of each batch, by batch id. Batches without rows are included."""
        self.fence: Fence | None = None
        self._lock = threading.Lock()

    @property
    def rows(self) -> list[Row]:
        with self._lock:
            return [row for number in sorted(self.batches) for row in self.batches[number]]

    def target(self) -> str:
        return "collect"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        return _CollectWriter(self)

    def apply(self, rows: list[Row], fence: Fence) -> int:
        with self._lock:
            if self.fence is not None and self.fence.covers(fence):
                return 0
            self.batches[fence.batch_id] = rows
            self.fence = fence
            return len(rows)

    def clear(self) -> None:
        with self._lock:
            self.batches.clear()
            self.fence = None


class _CollectWriter(SinkWriter):
    def __init__(self, sink: Collect) -> None:
        self._sink = sink

    def applied(self) -> Fence | None:
        return self._sink.fence

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        return self._sink.apply([row for batch in rows for row in batch.to_pylist()], fence)

    def clear(self) -> None:
        self._sink.clear()

    def close(self) -> None:
        pass
