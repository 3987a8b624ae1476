"""The dead letters of a job: records that could not be parsed, and rows that a sink would not take.

A letter has the record's own bytes, and headers that say where it was and why it died. The letters of a batch are
written in one transaction with the batch's fence, so a batch that is run again writes none of them twice.

Bad records are only counted while a batch runs. They are read a second time to be written, from the offsets of the
batch: that costs nothing where there are none, and keeps Python away from the good ones.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Row, SparkSession

from headrace.pipeline.fence import Fence
from headrace.pipeline.positions import Span, span_of_batch
from headrace.pipeline.reasons import Finding, reason
from headrace.pipeline.sinks.sink import RefusedRow
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage, TransactionalBatch
from headrace.pipeline.source import MISFITS, MISSING, UNREADABLE, SourceSpec, bad_records, read_span
from headrace.values import value

HEADER_PREFIX = "headrace.error."
REFUSED_SUFFIX = ".refused"
"""Of the topic of the rows that a job's sink refused, behind the job's name."""

TOPIC_CONFIG = {"retention.ms": "-1", "max.message.bytes": str(64 * 1024 * 1024)}
"""What nobody has looked at yet should not go by its age; and a record at its own topic's limit gets headers more."""

LETTER_BYTES_SPARE = 1_000
"""For what Kafka puts around a message, and for one more header."""

NO_OFFSETS = "-"
"""What a fence has in the place of offsets that there are not."""


@value
class SourceBatch:
    """What a batch took from one source: Spark's own texts of the offsets, `-` where there are none."""

    spec: SourceSpec
    start: str
    end: str

    def spans(self) -> Iterator[tuple[str, Span]]:
        """A span for each topic that the batch has records of."""
        if self.end == NO_OFFSETS:
            return
        span = span_of_batch(None if self.start == NO_OFFSETS else self.start, self.end)
        for topic in span.ends:
            if span.starts[topic] != span.ends[topic]:
                yield topic, Span(starts={topic: span.starts[topic]}, ends={topic: span.ends[topic]})


class DeadLetters:
    """Those of one job. Nothing is connected to before there is a letter to write.

    `topic` and `bootstrap` are where refused rows go (`<job>.refused`); bad records go to the topic that their source
    names, on the source's own broker.
    """

    def __init__(self, job: str, *, bootstrap: str, topic: str | None = None) -> None:
        self._job = job
        self._bootstrap = bootstrap
        self.refused_topic = topic or job + REFUSED_SUFFIX
        self._batches: dict[tuple[str, str], TransactionalBatch] = {}
        self._refusals_of: tuple[Fence | None, int] = (None, 0)

    def of_sources(self, spark: SparkSession, sources: Sequence[SourceBatch], fence: Fence) -> int:
        """Write the bad records that a batch took from its sources; how many were written."""
        spans: dict[tuple[str, str], list[tuple[SourceSpec, Span]]] = {}
        for source in sources:
            for topic, span in source.spans():
                place = (source.spec.bootstrap, source.spec.dead_topic(topic))
                spans.setdefault(place, []).append((source.spec, span))
        written = 0
        for (bootstrap, dead_topic), parts in spans.items():
            letters = self._letters(spark, parts)
            first = next(letters, None)
            if first is not None:
                batch = self._batch(f"headrace-dead-letters.{self._job}.{dead_topic}", dead_topic, bootstrap)
                written += self._write(batch, itertools.chain([first], letters), fence)
        return written

    def of_refused(self, rows: Sequence[RefusedRow], fence: Fence) -> int:
        """Write rows that the sink will not take; a batch may come with several lots."""
        before, count = self._refusals_of
        lot = count if before == fence else 0
        self._refusals_of = (fence, lot + 1)
        batch = self._batch(f"headrace-refused.{self._job}.{lot}", self.refused_topic, self._bootstrap)
        return self._write(batch, map(self._refused_letter, rows), fence)

    def close(self) -> None:
        for batch in self._batches.values():
            batch.close()
        self._batches.clear()

    def _batch(self, writer: str, topic: str, bootstrap: str) -> TransactionalBatch:
        if (writer, bootstrap) not in self._batches:
            self._batches[writer, bootstrap] = TransactionalBatch(
                writer, topic=topic, bootstrap=bootstrap, topic_config=TOPIC_CONFIG
            )
        return self._batches[writer, bootstrap]

    def _write(self, batch: TransactionalBatch, letters: Iterable[OutgoingMessage], fence: Fence) -> int:
        bytes_max = batch.message_bytes_max
        return batch.write((_cut_to_fit(letter, bytes_max) for letter in letters), fence)

    def _letters(
        self, spark: SparkSession, parts: Sequence[tuple[SourceSpec, Span]]
    ) -> Iterator[OutgoingMessage]:
        seen: set[tuple[str, int, int]] = set()
        for spec, span in parts:
            for row in bad_records(read_span(spark, spec, span), spec).toLocalIterator():
                place = (row["topic"], row["partition"], row["offset"])
                # Two sources of a job may read the same topic, and find the same record bad.
                if place not in seen:
                    seen.add(place)
                    yield self._letter(row, spec)

    def _letter(self, row: Row, spec: SourceSpec) -> OutgoingMessage:
        content = None if row["value"] is None else bytes(row["value"])
        finding = Finding(is_unreadable=row[UNREADABLE], missing=row[MISSING], misfits=row[MISFITS])
        headers = {
            "topic": row["topic"],
            "partition": str(row["partition"]),
            "offset": str(row["offset"]),
            "timestamp": _iso(row["timestamp"]),
            "job": self._job,
            "reason": reason(spec.format, spec.schema, content, finding),
        }
        # A letter that was put back and died again says only how it died last.
        own = [(header.key, header.value) for header in row["headers"] or []]
        kept = [pair for pair in own if not pair[0].startswith(HEADER_PREFIX)]
        return OutgoingMessage(
            value=content,
            key=None if row["key"] is None else bytes(row["key"]),
            headers=(
                *((name, None if text is None else bytes(text)) for name, text in kept),
                *((HEADER_PREFIX + name, text.encode()) for name, text in headers.items()),
            ),
        )

    def _refused_letter(self, refused: RefusedRow) -> OutgoingMessage:
        headers = {"job": self._job, "reason": refused.reason}
        return OutgoingMessage(
            value=json.dumps(dict(refused.row), default=_plain, ensure_ascii=False).encode(),
            headers=tuple((HEADER_PREFIX + name, text.encode()) for name, text in headers.items()),
        )


def _cut_to_fit(letter: OutgoingMessage, bytes_max: int) -> OutgoingMessage:
    """A letter that its topic would refuse keeps the beginning of its value, and says how long that was."""
    taken = len(letter.key or b"") + sum(len(name) + len(text or b"") for name, text in letter.headers)
    room = max(0, bytes_max - LETTER_BYTES_SPARE - taken)
    if letter.value is None or len(letter.value) <= room:
        return letter
    cut_from = (HEADER_PREFIX + "cut.from.bytes", str(len(letter.value)).encode())
    return OutgoingMessage(value=letter.value[:room], key=letter.key, headers=(*letter.headers, cut_from))


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _plain(found: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(found, (bytes, bytearray)):
        try:
            return bytes(found).decode()
        except UnicodeDecodeError:
            return base64.b64encode(found).decode()
    return str(found)
