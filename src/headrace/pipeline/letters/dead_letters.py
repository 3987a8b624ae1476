"""The dead letters of a job: records that could not be parsed, and rows that a sink rejected.

A dead letter has the record's own bytes, and headers with its origin and the reason. The dead letters of a batch are
written in one transaction with the batch's fence, so a batch that is run again writes none of them twice.

Spark only counts bad records while a batch runs. If there are any, the offsets of the batch are read a second time:
batches without bad records cost nothing, and Python never handles a good record. The counts are read after the sink has
written and before Spark commits, so that a crash cannot lose the letter of a dropped record.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

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
from headrace.pipeline.fence import Fence
from headrace.pipeline.folders.folder import Folder
from headrace.pipeline.graph.plan import SourceStep
from headrace.pipeline.letters import file_letters
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage, TransactionalBatch
from headrace.pipeline.source.files_spec import FilesSpec
from headrace.pipeline.source.offsets import Offsets, Span, offsets_of, smallest_offsets, span_of_batch
from headrace.pipeline.source.read_topic import (
    AHEAD,
    ANCIENT,
    MISFITS,
    MISSING,
    PROBLEM,
    UNREADABLE,
    bad_records,
    read_span,
)
from headrace.pipeline.source.reasons import Finding, reason
from headrace.pipeline.source.spec import SourceSpec

LARGE_MESSAGES = {"max.message.bytes": str(64 * 1024 * 1024)}
"""A record of the largest size that its own topic allows grows by the headers."""

TOPIC_CONFIG = {**dead_letters.TOPIC_CONFIG, **LARGE_MESSAGES}

LETTER_BYTES_SPARE = 1_000
"""For what Kafka adds to a message, and for one more header."""


class DeadLetters:
    """The dead letters of one job, in the topic `dlq.JOB` unless `topic` or a source names another one.

    Rejected rows go to the broker at `bootstrap`, bad records to that of their source. A connection opens when there
    is a letter to write.
    """

    def __init__(
        self,
        job: str,
        sources: Sequence[SourceStep],
        *,
        spark: SparkSession,
        bootstrap: str,
        topic: str | None = None,
        checkpoint: Folder | None = None,
    ) -> None:
        """`checkpoint` is the folder of the checkpoint of a stream."""
        self.job = job
        self._checkpoint = checkpoint
        self.topic = topic or dead_letter_topic(job)
        self._spark = spark
        self._bootstrap = bootstrap
        self._in_plan = sources
        self.sources = list({_identity(source): source for source in sources}.values())
        self.specs = [source.spec for source in self.sources if source.spec is not None]
        self.file_specs = [source.files for source in self.sources if source.files is not None]
        self.all_specs: Sequence[SourceSpec | FilesSpec] = (*self.specs, *self.file_specs)
        self.can_have_bad = any(spec.can_have_bad for spec in self.all_specs)
        self.written = 0
        self.bad_rows = 0
        """of them, bad records. Counted here, because Spark counts a record each time it computes it."""
        self._batches: dict[tuple[str, str], TransactionalBatch] = {}
        self._rejections_of: tuple[Fence | None, int] = (None, 0)

    def of_counts(self, counts: Mapping[str, int], fence: Fence) -> None:
        """Write the bad records of the batch, if the counts contain any."""
        self._write_bad(lambda spec: counts.get(spec.bad_metric, 0) > 0, fence)
        self._write_bad_of_files(lambda spec: counts.get(spec.bad_metric, 0) > 0, fence)

    def of_replay(self, fence: Fence) -> None:
        """The same for a batch that was run before: if the sink has the batch already, nothing was counted."""
        self._write_bad(lambda spec: spec.can_have_bad, fence)
        self._write_bad_of_files(lambda spec: spec.can_have_bad, fence)

    def of_rejected(self, rows: Sequence[RejectedRow], fence: Fence) -> None:
        """Write rows that the sink rejected. A batch may have several lots."""
        before, count = self._rejections_of
        lot = count if before == fence else 0
        self._rejections_of = (fence, lot + 1)
        batch = self.batch(f"headrace-rejected.{self.job}.{lot}", self.topic)
        self.written += _write(batch, map(self._rejected_letter, rows), fence)

    def batch(
        self,
        writer: str,
        topic: str,
        *,
        bootstrap: str | None = None,
        topic_config: Mapping[str, str] = TOPIC_CONFIG,
    ) -> TransactionalBatch:
        """The batches of this writer. They are closed with the dead letters."""
        place = (writer, bootstrap or self._bootstrap)
        if place not in self._batches:
            self._batches[place] = TransactionalBatch(
                writer, topic=topic, bootstrap=place[1], topic_config=topic_config
            )
        return self._batches[place]

    def close(self) -> None:
        for batch in self._batches.values():
            batch.close()
        self._batches.clear()

    def _write_bad(self, is_wanted: Callable[[SourceSpec], bool], fence: Fence) -> None:
        spans: dict[tuple[str, str], list[tuple[SourceSpec, Span]]] = {}
        wanted = {spec.id for spec in self.specs if is_wanted(spec)}
        for spec, start, end in self._offsets(fence) if wanted else ():
            if spec.id in wanted:
                place = (spec.bootstrap, spec.dead_letters or self.topic)
                spans.setdefault(place, []).extend((spec, span) for span in _spans(start, end))
        for (bootstrap, topic), parts in spans.items():
            bad = self._bad_rows(parts)
            first = next(bad, None)
            if first is not None:
                batch = self.batch(f"headrace-dead-letters.{self.job}.{topic}", topic, bootstrap=bootstrap)
                handled = _handled(batch.applied(), fence)
                letters = (
                    self._letter(row, spec)
                    for row, spec in itertools.chain([first], bad)
                    if row["offset"] >= handled.get(row["topic"], {}).get(row["partition"], 0)
                )
                written = _write(batch, letters, fence)
                self.written += written
                self.bad_rows += written

    def _write_bad_of_files(self, is_wanted: Callable[[FilesSpec], bool], fence: Fence) -> None:
        by_topic: dict[str, list[Iterator[OutgoingMessage]]] = {}
        seen: set[str] = set()
        for number, source in enumerate(self.sources):
            spec = source.files
            if spec is None or not is_wanted(spec):
                continue
            # Two sources of a job may read the same folder, and reject the same row.
            files = [file for file in self._files(source, number, fence) if file not in seen]
            seen.update(files)
            found = file_letters.letters(self._spark, spec, files, self.job)
            by_topic.setdefault(spec.dead_letters or self.topic, []).append(found)
        for topic, parts in by_topic.items():
            letters = itertools.chain.from_iterable(parts)
            first = next(letters, None)
            if first is not None:
                batch = self.batch(f"headrace-file-letters.{self.job}.{topic}", topic)
                written = _write(batch, itertools.chain([first], letters), fence)
                self.written += written
                self.bad_rows += written

    def _files(self, source: SourceStep, number: int, fence: Fence) -> Sequence[str]:
        """The addresses of the files that a batch has read of the source with this number."""
        if source.found_files or self._checkpoint is None:
            return source.found_files
        log = self._checkpoint.at(f"sources/{number}")
        return file_letters.files_of_batch(log, fence.starts[number], fence.ends[number])

    def _offsets(self, fence: Fence) -> Iterator[tuple[SourceSpec, str, str]]:
        """The sources of records with their start and end offsets.

        A union of rows with themselves is one source for Spark, and a join with themselves is two.
        """
        for sources in (self.sources, self._in_plan):
            if len(sources) == len(fence.ends):
                for source, start, end in zip(sources, fence.starts, fence.ends, strict=True):
                    if source.spec is not None:
                        yield source.spec, start, end
                return
        for spec in self.specs:
            for start, end in zip(fence.starts, fence.ends, strict=True):
                if spec.pattern is not None or all(topic in spec.topics for topic in offsets_of(end)):
                    yield spec, start, end

    def _bad_rows(self, parts: Sequence[tuple[SourceSpec, Span]]) -> Iterator[tuple[Row, SourceSpec]]:
        seen: set[tuple[str, int, int]] = set()
        for spec, span in parts:
            for row in bad_records(read_span(self._spark, spec, span), spec).toLocalIterator():
                place = (row["topic"], row["partition"], row["offset"])
                # Two sources of a job may read the same topic, and reject the same record.
                if place not in seen:
                    seen.add(place)
                    yield row, spec

    def _letter(self, row: Row, spec: SourceSpec) -> OutgoingMessage:
        content = None if row["value"] is None else bytes(row["value"])
        finding = Finding(
            is_unreadable=row[UNREADABLE],
            missing=row[MISSING],
            misfits=row[MISFITS],
            ahead=row[AHEAD],
            ancient=row[ANCIENT],
            problem=row[PROBLEM],
        )
        errors = {
            TOPIC_HEADER: row["topic"],
            PARTITION_HEADER: str(row["partition"]),
            OFFSET_HEADER: str(row["offset"]),
            TIMESTAMP_HEADER: iso(row["timestamp"]),
            GROUP_HEADER: self.job,
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

    def _rejected_letter(self, rejected: RejectedRow) -> OutgoingMessage:
        errors = {GROUP_HEADER: self.job, REASON_HEADER: rejected.reason}
        return OutgoingMessage(
            value=json.dumps(dict(rejected.row), default=_plain, ensure_ascii=False).encode(),
            headers=with_errors(rejected.headers, errors),
        )


def _identity(source: SourceStep) -> object:
    described = source.spec or source.files
    return id(source) if described is None else described.id


def _write(batch: TransactionalBatch, letters: Iterable[OutgoingMessage], fence: Fence) -> int:
    bytes_max = batch.target.message_bytes_max
    return batch.write((cut_to_fit(letter, bytes_max) for letter in letters), fence)


def _spans(start: str, end: str) -> Iterator[Span]:
    """The range of each topic from which the batch has records."""
    span = span_of_batch(start, end)
    for topic, ends in span.ends.items():
        if span.starts[topic] != ends:
            yield Span(starts={topic: span.starts[topic]}, ends={topic: ends})


def _handled(kept: Fence | None, fence: Fence) -> Offsets:
    """Up to which offsets a writer of dead letters has handled the records, by its fence.

    A batch starts at the end of the one before, and letters that were not written in their batch are written with those
    of a later one: the first letters of such a span may be written already.
    """
    if kept is None or kept.checkpoint != fence.checkpoint:
        return {}
    return smallest_offsets(kept.ends)


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


def iso(moment: datetime) -> str:
    """In UTC. Spark's rows have times without a zone, in that of this machine."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(found: Any) -> Any:
    """Types that JSON does not have."""
    if isinstance(found, (bytes, bytearray)):
        try:
            return bytes(found).decode()
        except UnicodeDecodeError:
            return base64.b64encode(found).decode()
    return str(found)
