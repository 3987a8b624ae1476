"""Which sources of a batch had bad records, and at which offsets.

Spark counts bad records while the batch runs. The counts are read after the sink has written and before Spark commits,
so that a crash cannot lose the letter of a dropped record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.pipeline.letters.dead_letters import DeadLetters, SourceBatch
from headrace.pipeline.source.offsets import offsets_of
from headrace.plan_names import BAD_METRIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline.fence import Fence
    from headrace.pipeline.graph.plan import SourceStep
    from headrace.pipeline.sinks.sink import RefusedRow
    from headrace.pipeline.source.spec import SourceSpec

_COUNTS = re.compile(rf"({re.escape(BAD_METRIC)}\w+) -> \[(\d+)[,\]]")
"""The count is the first value of the metric of a source."""


class BatchLetters:
    """Writes the letters of one job."""

    def __init__(self, letters: DeadLetters, spark: SparkSession, sources: Sequence[SourceStep]) -> None:
        self._letters = letters
        self._spark = spark
        self._in_plan = list(sources)
        self.sources = list({_identity(source): source for source in sources}.values())
        self.can_have_bad = any(source.spec is not None and source.spec.can_have_bad for source in sources)
        self.written = 0
        self.bad_rows = 0
        """of them, bad records. Counted here, because Spark counts a record each time it computes it."""

    def of_counts(self, counts: Mapping[str, int], fence: Fence) -> None:
        """Write the bad records of the batch, if the counts contain any."""
        bad = {name for name, count in counts.items() if count > 0}
        if bad:
            self._write([spec for spec in self._specs() if spec.bad_metric in bad], fence)

    def of_replay(self, fence: Fence) -> None:
        """The same for a batch that was run before: if the sink has the batch already, nothing was counted."""
        if self.can_have_bad:
            self._write([spec for spec in self._specs() if spec.can_have_bad], fence)

    def of_refused(self, rows: Sequence[RefusedRow], fence: Fence) -> None:
        self.written += self._letters.of_refused(rows, fence)

    def close(self) -> None:
        self._letters.close()

    def _specs(self) -> list[SourceSpec]:
        return [source.spec for source in self.sources if source.spec is not None]

    def _write(self, specs: Sequence[SourceSpec], fence: Fence) -> None:
        wanted = {spec.id for spec in specs}
        batches = [
            SourceBatch(spec=source.spec, start=start, end=end)
            for source, start, end in self._parts(fence)
            if source.spec is not None and source.spec.id in wanted
        ]
        written = self._letters.of_sources(self._spark, batches, fence)
        self.written += written
        self.bad_rows += written

    def _parts(self, fence: Fence) -> Iterator[tuple[SourceStep, str, str]]:
        """The sources with their offsets.

        A union of rows with themselves is one source for Spark, and a join with themselves is two.
        """
        for sources in (self.sources, self._in_plan):
            if len(sources) == len(fence.ends):
                yield from zip(sources, fence.starts, fence.ends, strict=True)
                return
        for source in self.sources:
            for start, end in zip(fence.starts, fence.ends, strict=True):
                if source.spec is not None and _is_of(source.spec, end):
                    yield source, start, end


def _is_of(spec: SourceSpec, offsets: str) -> bool:
    return all(topic in spec.topics or spec.pattern is not None for topic in offsets_of(offsets))


def observed_counts(query: Any) -> dict[str, int]:
    """The counts of the batch that a query of the JVM has just run. One text, because every call is slow."""
    text = query.lastExecution().observedMetrics().toString()
    return {name: int(count) for name, count in _COUNTS.findall(text)}


def _identity(source: SourceStep) -> object:
    return source.spec.id if source.spec is not None else id(source)
