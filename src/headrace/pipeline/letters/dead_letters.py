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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Row, SparkSession

from headrace.pipeline.letters.reasons import Finding, reason
from headrace.pipeline.sinks.fence import Fence
from headrace.pipeline.sinks.sink import RefusedRow
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage, TransactionalBatch
from headrace.pipeline.source.positions import Span, offsets_from_text, span_of_batch
from headrace.pipeline.source.read_topic import (
    MISFITS,
    MISSING,
    UNREADABLE,
    SourceSpec,
    bad_records,
    read_span,
)
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
        return batch.write((cut_to_fit(letter, bytes_max) for letter in letters), fence)

    def _bad_rows(
        self, spark: SparkSession, parts: Sequence[tuple[SourceSpec, Span]]
    ) -> Iterator[tuple[Row, SourceSpec]]:
        seen: set[tuple[str, int, int]] = set()
        for spec, span in parts:
            for row in bad_records(read_span(spark, spec, span), spec).toLocalIterator():
                place = (row["topic"], row["partition"], row["offset"])
                # Two sources of a job may read the same topic, and find the same record bad.
                if place not in seen:
                    seen.add(place)
                    yield row, spec

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
        return OutgoingMessage(
            value=content,
            key=None if row["key"] is None else bytes(row["key"]),
            headers=_with_error(((header.key, header.value) for header in row["headers"] or []), headers),
        )

    def _refused_letter(self, refused: RefusedRow) -> OutgoingMessage:
        headers = {"job": self._job, "reason": refused.reason}
        return OutgoingMessage(
            value=json.dumps(dict(refused.row), default=_plain, ensure_ascii=False).encode(),
            headers=_with_error(refused.headers, headers),
        )


@value
class _Known:
    """Which records a writer of letters has been past, by the offsets of the fence that it keeps.

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
            for topic, offsets in (offsets_from_text(text) if text.startswith("{") else {}).items():
                for partition, end in offsets.items():
                    # Where two sources read a partition, what both are past.
                    ends[topic, partition] = min(end, ends.get((topic, partition), end))
        return cls(ends=ends)

    def has(self, topic: str, partition: int, offset: int) -> bool:
        return offset < self.ends.get((topic, partition), 0)


def _with_error(
    own: Iterable[tuple[str, bytes | None]], error: Mapping[str, str]
) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a letter. One that was put back and died again says only how it died last."""
    return (
        *((name, None if text is None else bytes(text)) for name, text in own if not _is_error(name)),
        *((HEADER_PREFIX + name, text.encode()) for name, text in error.items()),
    )


def _is_error(header: str) -> bool:
    return header.startswith(HEADER_PREFIX)


def cut_to_fit(letter: OutgoingMessage, bytes_max: int) -> OutgoingMessage:
    """A letter that its topic would refuse keeps the beginning of its value, and says how long that was.

    Headers are kept whole, or left out where they alone would be too much.
    """
    room = bytes_max - LETTER_BYTES_SPARE - len(letter.key or b"") - _size(letter.headers)
    content = letter.value or b""
    if len(content) <= room:
        return letter
    headers = letter.headers
    if room < 0:
        headers = tuple(pair for pair in headers if _is_error(pair[0]))
        room += _size(letter.headers) - _size(headers)
    cut_from = (HEADER_PREFIX + "cut.from.bytes", str(len(content)).encode())
    kept = None if letter.value is None else content[: max(0, room)]
    return OutgoingMessage(value=kept, key=letter.key, headers=(*headers, cut_from))


def _size(headers: Iterable[tuple[str, bytes | None]]) -> int:
    return sum(len(name.encode()) + len(text or b"") for name, text in headers)


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
