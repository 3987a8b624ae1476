"""Holds back the watermark of a replay until the slowest partition of a topic has caught up.

Spark's watermark follows the newest record of all partitions. If a batch leaves records behind because it is bounded,
and those of one partition are older than what other partitions have had already, they would be late in the next batch,
although they are in order in their partition. So the watermark stays behind the next record of every partition that
has not been read to its end.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.pipeline.settings import pipeline_settings
from headrace.pipeline.source.offsets import Offsets, Span, smallest_offsets
from headrace.pipeline.source.options import BATCH_BOUND
from headrace.pipeline.source.positions import TopicsOnBroker
from headrace.pipeline.source.read_topic import watermarks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline.fence import Fence
    from headrace.pipeline.source.spec import SourceSpec

LOOK_AHEAD = 10
"""How many of the next records of a partition are read. The first may have no time, or a newer one than the second."""

INTEGER_MAX = 2**31 - 1
"""py4j passes numbers up to this as another type than Spark's watermarks have."""


class ReplayWatermark:
    """The bound of the watermark, set after each batch of a query and before Spark advances the watermark."""

    def __init__(self, spark: SparkSession, specs: Sequence[SourceSpec]) -> None:
        self._spark = spark
        self._specs = [spec for spec in specs if spec.watermark is not None]
        self._on_broker = {spec.id: TopicsOnBroker(spec) for spec in self._specs}
        self._place: Any = None
        self._is_held = False

    def after_batch(self, query: Any, fence: Fence) -> None:
        """`query` is Spark's StreamExecution. Its batch is written and not committed."""
        starts, ends = smallest_offsets(fence.starts), smallest_offsets(fence.ends)
        bounds = [
            bound_ms
            for spec in self._specs
            if is_bounded(spec, starts, ends)
            for bound_ms in self._bounds_ms(spec, ends)
        ]
        if bounds:
            self._hold(query, min(bounds))
        elif self._is_held:
            self._release(query)

    def _bounds_ms(self, spec: SourceSpec, ends: Offsets) -> list[int]:
        """The latest watermark for each partition that is not read to its end; 0 if its next records have no time."""
        written = self._on_broker[spec.id].ends_written()
        behind = {
            (topic, partition): (at, min(at + LOOK_AHEAD, end))
            for topic, of_topic in written.items()
            for partition, end in of_topic.items()
            if (at := ends.get(topic, {}).get(partition, 0)) < end
        }
        if not behind:
            return []
        span = Span(
            starts=_nested({place: start for place, (start, _) in behind.items()}),
            ends=_nested({place: end for place, (_, end) in behind.items()}),
        )
        found = watermarks_of(self._spark, spec, span)
        return [found.get(place, 0) for place in behind]

    def _hold(self, query: Any, bound_ms: int) -> None:
        """Spark takes the smallest watermark of all operators of the query. This is one more."""
        jvm: Any = self._spark._jvm
        if self._place is None:
            self._place = jvm.java.util.UUID.fromString(str(uuid.uuid4()))
        # Without a value, Spark's watermark does not advance.
        bound = jvm.scala.Some(bound_ms) if bound_ms > INTEGER_MAX else jvm.scala.Option.empty()
        _watermarks(query).put(self._place, bound)
        self._is_held = True

    def _release(self, query: Any) -> None:
        _watermarks(query).remove(self._place)
        self._is_held = False


def is_bounded(spec: SourceSpec, starts: Offsets, ends: Offsets) -> bool:
    """Whether a batch read as many records as it may, of a source with several partitions."""
    reached = {
        (topic, partition): end - starts.get(topic, {}).get(partition, 0)
        for topic, of_topic in ends.items()
        if spec.reads(topic)
        for partition, end in of_topic.items()
    }
    # Spark divides the bound among the partitions and rounds down.
    return len(reached) > 1 and sum(reached.values()) >= batch_bound(spec) - len(reached)


def batch_bound(spec: SourceSpec) -> int:
    by_name = {name.lower(): text for name, text in spec.options.items()}
    return int(by_name.get(BATCH_BOUND.lower(), pipeline_settings().rows_per_batch_max))


def _watermarks(query: Any) -> Any:
    """The watermarks of the query's operators, a map that Spark keeps to itself."""
    tracker = query.watermarkTracker()
    field = tracker.getClass().getDeclaredField("operatorToWatermarkMap")
    field.setAccessible(True)
    return field.get(tracker)


def _nested(offsets: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    nested: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        nested.setdefault(topic, {})[partition] = offset
    return nested
