"""The dead letters of a job: records that could not be parsed, and rows that a sink rejected.

A dead letter has the record's own bytes, and headers with its origin and the reason. The dead letters of a batch are
written in one transaction with the batch's fence, so a batch that is run again writes none of them twice.

Spark only counts bad records while a batch runs. If there are any, the offsets of the batch are read a second time:
batches without bad records cost nothing, and Python never handles a good record.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from pyspark.sql import Row, SparkSession

from headrace import dead_letters
from headrace.dead_letters import (
    GROUP_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
    TRUNCATED_HEADER,
    dead_letter_topic,
    is_error_header,
    with_errors,
)
from headrace.pipeline.checkpoint import NO_OFFSET
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.sink import RefusedRow
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage, TransactionalBatch
from headrace.pipeline.source.offsets import Span, offsets_of, span_of_batch
from headrace.pipeline.source.read_topic import (
    MISFITS,
    MISSING,
    UNREADABLE,
    bad_records,
    read_span,
)
from headrace.pipeline.source.reasons import Finding, reason
from headrace.pipeline.source.spec import SourceSpec

TOPIC_CONFIG = {**dead_letters.TOPIC_CONFIG, "max.message.bytes": str(64 * 1024 * 1024)}
"""A record of the largest size that its own topic allows grows by the headers."""

LETTER_BYTES_SPARE = 1_000
"""For what Kafka adds to a message, and for one more header."""


class SourceBatch(Struct, frozen=True, kw_only=True):
    """The offsets that a batch read from one source, in Spark's notation; `-` for none."""

    spec: SourceSpec
    start: str
    end: str

    def spans(self) -> Iterator[tuple[str, Span]]:
        """The range of each topic from which the batch has records."""
        if self.end == NO_OFFSET:
            return
        span = span_of_batch(None if self.start == NO_OFFSET else self.start, self.end)
        for topic in span.ends:
            if span.starts[topic] != span.ends[topic]:
                yield topic, Span(starts={topic: span.starts[topic]}, ends={topic: span.ends[topic]})


class DeadLetters:
    """The dead letters of one job, in the topic `dlq.JOB` unless `topic` or a source names another one.

    Refused rows go to the broker at `bootstrap`, bad records to that of their source. A connection is opened when there
    is a letter to write.
    """

    def __init__(self, job: str, *, bootstrap: str, topic: str | None = None) -> None:
        self._job = job
        self._bootstrap = bootstrap
        self.topic = topic or dead_letter_topic(job)
        self._batches: dict[tuple[str, str], TransactionalBatch] = {}
        self._refusals_of: tuple[Fence | None, int] = (None, 0)

    def of_sources(self, spark: SparkSession, sources: Sequence[SourceBatch], fence: Fence) -> int:
        """Write the bad records that a batch read from its sources. Returns how many were written."""
        spans: dict[tuple[str, str], list[tuple[SourceSpec, Span]]] = {}
        for source in sources:
            for _topic, span in source.spans():
                place = (source.spec.bootstrap, source.spec.dead_letters or self.topic)
                spans.setdefault(place, []).append((source.spec, span))
        written = 0
        for (bootstrap, dead_topic), parts in spans.items():
            bad = self._bad_rows(spark, parts)
            first = next(bad, None)
            if first is not None:
                batch = self._batch(f"headrace-dead-letters.{self._job}.{dead_topic}", dead_topic, bootstrap)
                known = _Known.of(batch.applied(), fence)
                letters = (
                    self._letter(row, spec)
                    for row, spec in itertools.chain([first], bad)
                    if not known.has(row["topic"], row["partition"], row["offset"])
                )
                written += self._write(batch, letters, fence)
        return written

    def of_refused(self, rows: Sequence[RefusedRow], fence: Fence) -> int:
        """Write rows that the sink rejected. A batch may have several lots."""
        before, count = self._refusals_of
        lot = count if before == fence else 0
        self._refusals_of = (fence, lot + 1)
        batch = self._batch(f"headrace-refused.{self._job}.{lot}", self.topic, self._bootstrap)
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
        return batch.write((cut_to_fit(letter, bytes_max) for letter in letters), fence)

    def _bad_rows(
        self, spark: SparkSession, parts: Sequence[tuple[SourceSpec, Span]]
    ) -> Iterator[tuple[Row, SourceSpec]]:
        seen: set[tuple[str, int, int]] = set()
        for spec, span in parts:
            for row in bad_records(read_span(spark, spec, span), spec).toLocalIterator():
                place = (row["topic"], row["partition"], row["offset"])
                # Two sources of a job may read the same topic, and reject the same record.
                if place not in seen:
                    seen.add(place)
                    yield row, spec

    def _letter(self, row: Row, spec: SourceSpec) -> OutgoingMessage:
        content = None if row["value"] is None else bytes(row["value"])
        finding = Finding(is_unreadable=row[UNREADABLE], missing=row[MISSING], misfits=row[MISFITS])
        errors = {
            TOPIC_HEADER: row["topic"],
            PARTITION_HEADER: str(row["partition"]),
            OFFSET_HEADER: str(row["offset"]),
            TIMESTAMP_HEADER: _iso(row["timestamp"]),
            GROUP_HEADER: self._job,
            REASON_HEADER: reason(spec.format, spec.schema, content, finding),
        }
        own = (
            (header.key, None if header.value is None else bytes(header.value))
            for header in row["headers"] or []
        )
        return OutgoingMessage(
            value=content,
            key=None if row["key"] is None else bytes(row["key"]),
            headers=with_errors(own, errors),
        )

    def _refused_letter(self, refused: RefusedRow) -> OutgoingMessage:
        errors = {GROUP_HEADER: self._job, REASON_HEADER: refused.reason}
        return OutgoingMessage(
            value=json.dumps(dict(refused.row), default=_plain, ensure_ascii=False).encode(),
            headers=with_errors(refused.headers, errors),
        )


class _Known(Struct, frozen=True, kw_only=True):
    """Which records a writer of dead letters has handled, by the offsets of its fence.

    A batch begins where the one before ended, and letters that were not written in their time are written with those
    of a later batch: of such a span the beginning may be there already.
    """

    ends: Mapping[tuple[str, int], int]

    @classmethod
    def of(cls, kept: Fence | None, fence: Fence) -> _Known:
        if kept is None or kept.checkpoint != fence.checkpoint:
            return cls(ends={})
        ends: dict[tuple[str, int], int] = {}
        for text in kept.ends:
            for topic, offsets in offsets_of(text).items():
                for partition, end in offsets.items():
                    # If two sources read a partition, the smaller offset.
                    ends[topic, partition] = min(end, ends.get((topic, partition), end))
        return cls(ends=ends)

    def has(self, topic: str, partition: int, offset: int) -> bool:
        return offset < self.ends.get((topic, partition), 0)


def cut_to_fit(letter: OutgoingMessage, bytes_max: int) -> OutgoingMessage:
    """Truncate the value of a letter that is too large for its topic; a header has the original length.

    Headers are kept, or removed if they alone are too large.
    """
    room = bytes_max - LETTER_BYTES_SPARE - len(letter.key or b"") - _size(letter.headers)
    content = letter.value or b""
    if len(content) <= room:
        return letter
    headers = letter.headers
    if room < 0:
        headers = tuple(pair for pair in headers if is_error_header(pair[0]))
        room += _size(letter.headers) - _size(headers)
    truncated = (TRUNCATED_HEADER, str(len(content)).encode())
    kept = None if letter.value is None else content[: max(0, room)]
    return OutgoingMessage(value=kept, key=letter.key, headers=(*headers, truncated))


def _size(headers: Iterable[tuple[str, bytes | None]]) -> int:
    return sum(len(name.encode()) + len(text or b"") for name, text in headers)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _plain(found: Any) -> Any:
    """Types that JSON does not have."""
    if isinstance(found, (bytes, bytearray)):
        try:
            return bytes(found).decode()
        except UnicodeDecodeError:
            return base64.b64encode(found).decode()
    return str(found)
