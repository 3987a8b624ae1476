"""Topics that fall silent, and do not hold back the watermark of a job that reads others beside them.

A beat is a row without content, below the watermark of its source, whose time moves that watermark on; above it, beats
are filtered out. They come from a small source of their own (`Beats`), so that Spark's offset log has them and a batch
that is run again has the same ones. When to beat is for the job to say (`IdleWatch`): a topic is idle only if nothing
was written to it for so long *and* everything in it is part of a committed batch. A source that is behind is not idle,
however long the replay takes, so that a beat never makes a row late that was in the topic before it.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headrace.clock import Clock, SystemClock
from headrace.pipeline.report.progress import IDLE_OFFSET, is_beats
from headrace.pipeline.report.registry import replace_text
from headrace.pipeline.source.positions import Offsets, TopicsOnBroker, offsets_from_text
from headrace.values import value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipeline.run.checkpoint import Checkpoint
    from headrace.pipeline.source.read_topic import SourceSpec

logger = logging.getLogger("headrace.pipeline")

FORMAT = "headrace-idle"
IS_BEAT = "__headrace_is_beat"

LOOKS_PER_IDLE = 4
LOOK_S_MIN, LOOK_S_MAX = 0.5, 60.0
"""A look costs a question to the broker, and a beat costs a micro-batch."""

_BEGINNING = "0001-01-01"


class Beats(DataSource):
    """The source of beats of one `read_topic`: the newest one that the job has asked for."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "beat_us BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return BeatsReader(Path(self.options["signal"]))


class BeatsReader(DataSourceStreamReader):
    def __init__(self, signal: Path) -> None:
        self._signal = signal

    def initialOffset(self) -> dict[str, int]:
        return {IDLE_OFFSET: 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        asked_us = 0
        with contextlib.suppress(FileNotFoundError):
            asked_us = int(self._signal.read_text())
        return {IDLE_OFFSET: max(asked_us, start[IDLE_OFFSET])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end[IDLE_OFFSET])] if end[IDLE_OFFSET] > start[IDLE_OFFSET] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def signal_file(source_id: str) -> Path:
    """Where a job asks for a beat: on the machine of the driver, which is where Spark plans batches."""
    return Path(tempfile.gettempdir()) / f"headrace-idle-{source_id}"


def with_watermark_when_idle(
    rows: DataFrame, event_time: str, watermark: str, *, source_id: str
) -> DataFrame:
    """The rows with a watermark that beats can move on."""
    spark = rows.sparkSession
    spark.dataSource.register(Beats)
    beats = spark.readStream.format(FORMAT).option("signal", str(signal_file(source_id))).load()
    columns = [
        F.timestamp_micros("beat_us").alias(field.name)
        if field.name == event_time
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in rows.schema.fields
    ]
    both = rows.withColumn(IS_BEAT, F.lit(False)).union(beats.select(*columns, F.lit(True).alias(IS_BEAT)))
    at = F.col(f"`{event_time}`")
    # The optimizer would move a filter that does not mention the event time below the watermark, and no beat would
    # ever get there.
    is_row = ~F.col(IS_BEAT) | (at < F.lit(_BEGINNING).cast("timestamp"))
    return both.withWatermark(event_time, watermark).where(is_row).drop(IS_BEAT)


@value
class Silence:
    """Since when a topic has had these ends."""

    ends: Offsets
    since_s: float

    def after(self, ends: Offsets, now_s: float) -> Silence:
        return self if ends == self.ends else Silence(ends=ends, since_s=now_s)

    def is_idle(self, position: Offsets, idle_s: float, now_s: float) -> bool:
        """Whether it lasts for so long, with nothing left to read for who is at this position."""
        is_caught_up = all(
            position.get(topic, {}).get(partition, 0) >= end
            for topic, ends in self.ends.items()
            for partition, end in ends.items()
        )
        return is_caught_up and now_s - self.since_s >= idle_s


_watching: dict[str, list[IdleWatch]] = {}
"""Whose queries read a source: jobs that are made of the same DataFrame share it, and its beats."""
_watching_lock = threading.Lock()


class IdleWatch:
    """Watches the topics of a job's sources that may fall silent, in a thread of its own while the query runs."""

    def __init__(
        self, job: str, specs: Sequence[SourceSpec], checkpoint: Checkpoint, *, clock: Clock | None = None
    ) -> None:
        self._job = job
        self._specs = [spec for spec in specs if spec.idle_us is not None]
        self._checkpoint = checkpoint
        self._clock = clock or SystemClock()
        self._on_broker = {
            spec.id: TopicsOnBroker(spec.bootstrap, topics=spec.topics, pattern=spec.pattern)
            for spec in self._specs
        }
        self._silences: dict[str, Silence] = {}
        self._idle: set[str] = set()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Before the query starts: it may be behind, and must see no beat that was meant for another one."""
        if not self._specs or self._thread is not None:
            return
        with _watching_lock:
            for spec in self._specs:
                _watching.setdefault(spec.id, []).append(self)
                signal_file(spec.id).unlink(missing_ok=True)
        self._stopping.clear()
        self._thread = threading.Thread(target=self._watch, name=f"headrace-idle-{self._job}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping.set()
        thread.join()
        with _watching_lock:
            for spec in self._specs:
                _watching[spec.id].remove(self)
                signal_file(spec.id).unlink(missing_ok=True)

    def _watch(self) -> None:
        idle_s = min(spec.idle_us or 0 for spec in self._specs) / 1e6
        look_s = min(max(idle_s / LOOKS_PER_IDLE, LOOK_S_MIN), LOOK_S_MAX)
        while not self._stopping.wait(look_s):
            for spec in self._specs:
                try:
                    self.look(spec)
                except Exception as error:  # a broker that is away is the query's trouble, and it will tell
                    logger.info("job %s: could not see whether %s is idle: %s", self._job, spec.topics, error)

    def look(self, spec: SourceSpec) -> bool:
        """Beat if the source is idle for all who read it; whether it is for this one."""
        assert spec.idle_us is not None
        # What is written and not committed yet will be read one day: then the source is not idle.
        ends, now_s = self._on_broker[spec.id].ends_written(), self._clock.monotonic_s()
        before = self._silences.get(spec.id) or Silence(ends=ends, since_s=now_s)
        self._silences[spec.id] = silence = before.after(ends, now_s)
        is_idle = silence.is_idle(self._position(), spec.idle_us / 1e6, now_s)
        with _watching_lock:
            self._idle = self._idle | {spec.id} if is_idle else self._idle - {spec.id}
            if is_idle and all(spec.id in each._idle for each in _watching.get(spec.id, [])):
                replace_text(signal_file(spec.id), str(self._clock.now_ms() * 1_000 - spec.idle_us))
        return is_idle

    def _position(self) -> dict[str, dict[int, int]]:
        """Up to where everything is in a committed batch; where several sources read a partition, the furthest back."""
        committed = self._checkpoint.committed_batch()
        position: dict[str, dict[int, int]] = {}
        for text in () if committed is None else self._checkpoint.ends(committed):
            if not text.startswith("{") or is_beats(text):
                continue
            with contextlib.suppress(ValueError, AttributeError):  # of a source that is no topic
                for topic, offsets in offsets_from_text(text).items():
                    known = position.setdefault(topic, {})
                    for partition, offset in offsets.items():
                        known[partition] = min(offset, known.get(partition, offset))
        return position
