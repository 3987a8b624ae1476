"""`headrace produce`: lines, JSON or bytes into a topic."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer
from msgspec import Struct

from headrace.cli.arguments import parse_pairs, unescape
from headrace.cli.command import Bootstrap, RegistryAddress, command_app, connect
from headrace.cli.completion import complete_topics
from headrace.cli.output import OutputFormat, note, progress_bar, result, show
from headrace.cli.records.produce_input import (
    RECORD_BYTES_MAX,
    BadLine,
    InputFormat,
    InputRecord,
    LineRules,
    read_chunks,
    read_lines,
)
from headrace.errors import HeadraceError
from headrace.names import nearest

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from headrace.kafka.cluster import Cluster

# After this time a record that could not be delivered fails and is reported; the client's default of five minutes is
# too long for a person at a prompt.
DELIVERY_TIMEOUT_MS = 30_000
# The retries of a request that the broker rejects, which take four seconds. The client's default bound is the
# delivery timeout, after which it no longer reports the broker's error.
RETRIES_MAX = 6
# Failures beyond this number are only counted: the first ones show the reason.
FAILURES_SHOWN_MAX = 5


Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["0", "1", "all"]


@result("produce")
class Produced(Struct, frozen=True, kw_only=True):
    topic: str
    records: Annotated[int, "that the broker has acknowledged"]
    failed: Annotated[int, "that it has not acknowledged"]
    bad_lines: Annotated[int, "that were skipped, with --skip-bad"]
    elapsed_s: float


app = command_app()


@app.command()
def produce(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic to write to.", autocompletion=complete_topics)
    ],
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="TEXT", help="The key of every record.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The separator of a line's key and value (\\t, \\x1f: as in C)."),
    ] = None,
    format: Annotated[
        InputFormat,
        typer.Option(help="text: a record per line. json: the same, checked. binary: one record."),
    ] = "text",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read this file instead of standard input.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most N records a second.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of every record; repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Default: by key, else spread.")] = None,
    compression: Compression = "none",
    acks: Annotated[Acks, typer.Option(help="all: also never duplicated by a retry.")] = "all",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip bad lines, and count them.")] = False,
    tombstones: Annotated[
        bool, typer.Option("--tombstones", help="A line with an empty value deletes its key (a null value).")
    ] = False,
    chunk_bytes: Annotated[
        int | None, typer.Option(min=1, max=RECORD_BYTES_MAX, help="binary: a record for every N bytes.")
    ] = None,
    schema_subject: Annotated[
        str | None,
        typer.Option(
            metavar="SUBJECT",
            help="Lines are JSON, and records are of the latest schema of this subject, with its id in front.",
        ),
    ] = None,
    registry: RegistryAddress = None,
    report: Annotated[
        OutputFormat, typer.Option(help="The report of delivered records: text, or json for programs.")
    ] = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Write records from standard input or a file, and report how many were delivered.

    \b
    echo hello | headrace produce greetings
    echo 42 | headrace produce temperatures --key kitchen
    printf 'alice\\t1\\n' | headrace produce clicks --key-separator '\\t'
    printf 'alice:{"page": 1}\\n' | headrace produce clicks --key-separator : --format json
    headrace produce clicks --file clicks.ndjson --format json --rate 500 --compression zstd
    headrace produce orders --schema-subject orders-value < orders.ndjson
    headrace produce images --format binary --file cat.png --header type=image/png
    """
    if format == "binary" and (key_separator or tombstones):
        raise typer.BadParameter("--key-separator and --tombstones are for lines, not for --format binary")
    if chunk_bytes and format != "binary":
        raise typer.BadParameter("--chunk-bytes is for --format binary")
    if schema_subject is not None and format == "binary":
        raise typer.BadParameter("--schema-subject is for lines of JSON, not for --format binary")
    if key_separator == "":
        raise typer.BadParameter("--key-separator cannot be empty")
    if key is not None and key_separator is not None:
        raise typer.BadParameter("give one of --key and --key-separator")
    fixed_key = None if key is None else key.encode(errors="surrogateescape")
    rules = LineRules(
        is_json=format == "json",
        key=fixed_key,
        key_separator=unescape(key_separator, option="--key-separator") if key_separator else None,
        empty_is_tombstone=tombstones,
    )
    headers = [(name, value.encode()) for name, value in parse_pairs(header or (), option="--header").items()]

    write = None
    if schema_subject is not None:
        from headrace.cli.records.registered import encoded, record_writer_of

        write = record_writer_of(registry, schema_subject)
    cluster = connect(bootstrap)
    if partition is not None and partition >= len(cluster.partitions(topic)):
        raise HeadraceError(
            f"topic {topic} has no partition {partition}", hint=f"`headrace topic describe {topic}`"
        )

    from confluent_kafka import Producer

    _ensure_topic(cluster, topic)
    producer = Producer(
        cluster.client_config(
            acks=acks,
            enable_idempotence=acks == "all",
            compression_type=compression,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            retries=RETRIES_MAX,
            message_max_bytes=RECORD_BYTES_MAX,
            linger_ms=5,
            # A report for each record would cost a third of the time. What does not fail is delivered.
            delivery_report_only_error=True,
        )
    )
    sender = Sender(
        cluster, producer, topic, headers=headers, partition=-1 if partition is None else partition
    )
    label = file.name if file else ""
    with _open(file) as (stream, input_bytes), progress_bar(label, input_bytes) as on_progress:
        if format == "binary":
            records = read_chunks(stream, chunk_bytes, key=fixed_key)
        else:
            records = read_lines(stream, rules)
            if write is not None:
                records = encoded(records, write)
        _send_all(sender, records, skip_bad=skip_bad, rate=rate, on_progress=on_progress, report=report)


def _ensure_topic(cluster: Cluster, topic: str) -> None:
    others = cluster.topics()
    if topic not in others:
        cluster.create_by_use(topic)
        if near := nearest(topic, others):
            note(f"headrace: created topic {topic}; topic {near} exists too")


def _send_all(
    sender: Sender,
    records: Iterator[InputRecord | BadLine],
    *,
    skip_bad: bool,
    rate: float | None,
    on_progress: Callable[[int], None],
    report: OutputFormat,
) -> None:
    bad_lines = input_bytes = 0
    started_s = time.monotonic()
    try:
        for number, record in enumerate(records):
            if rate is not None:
                sender.wait_until(started_s + number / rate)
            if isinstance(record, InputRecord):
                sender.send(record)
            elif skip_bad:
                bad_lines += 1
            else:
                raise HeadraceError(
                    f"line {record.number}: {record.reason}",
                    hint="nothing after it was sent; --skip-bad skips such lines",
                )
            input_bytes += record.input_bytes
            on_progress(input_bytes)
    finally:
        # Also after an error, the records in flight are delivered and counted.
        sender.finish()
        elapsed_s = time.monotonic() - started_s
        done = Produced(
            topic=sender.topic,
            records=sender.delivered_count,
            failed=sender.failed_count,
            bad_lines=bad_lines,
            elapsed_s=round(elapsed_s, 3),
        )
        show(done, report, _report(done, elapsed_s))
    if sender.failed_count:
        raise HeadraceError(
            f"{sender.failed_count} records were not delivered",
            hint="the reasons are above; the others are in the topic",
        )


def _why_read_only(cluster: Cluster, topic: str) -> str:
    """Why the broker accepts no records; empty if it does not report it. Clients retry such an error like any transient
    one, and in the end only report a timeout."""
    from headrace.kafka.on_disk import read_only_reasons

    try:
        reasons = read_only_reasons(cluster.brokers()[0], topic, cluster.timeout_s)
    except HeadraceError:
        return ""
    return next(
        (
            f"partition {partition} of {topic} is read-only: {reason}; repair its disk, then restart the broker"
            for partition, reason in sorted(reasons.items())
        ),
        "",
    )


def _report(done: Produced, elapsed_s: float) -> str:
    parts = [f"{done.records} records to {done.topic} in {elapsed_s:.2f} s"]
    parts.append(f"{done.records / max(elapsed_s, 1e-9):,.0f} records/s")
    if done.bad_lines:
        parts.append(f"{done.bad_lines} bad lines skipped")
    if done.failed:
        parts.append(f"{done.failed} failed")
    return ", ".join(parts)


class Sender:
    """Sends records and counts those that were delivered and those that failed."""

    def __init__(
        self,
        cluster: Cluster,
        producer: Producer,
        topic: str,
        *,
        headers: list[tuple[str, bytes]],
        partition: int,
    ) -> None:
        self.topic = topic
        self.failed_count = 0
        self._sent_count = 0
        self._cluster = cluster
        self._producer = producer
        self._options: dict[str, Any] = {"headers": headers} if headers else {}
        self._partition = partition
        self._rejection: str | None = None

    @property
    def delivered_count(self) -> int:
        """Once `finish` has returned."""
        return self._sent_count - self.failed_count

    def send(self, record: InputRecord) -> None:
        """Send a record; raises if the broker rejects all records."""
        from confluent_kafka import KafkaException

        while True:
            if self._rejection is not None:
                raise HeadraceError(
                    f"{self.topic} accepts no records: {self._rejection}",
                    hint="the rest of the input was not read",
                )
            try:
                self._producer.produce(
                    self.topic, record.value, record.key, self._partition, self._on_failure, **self._options
                )
            except BufferError:
                # The client's buffer is full: the broker is slower than the input.
                self._producer.poll(0.1)
            except KafkaException as error:
                self._rejection = error.args[0].str()
            else:
                self._sent_count += 1
                break
        self._producer.poll(0)

    def wait_until(self, moment_s: float) -> None:
        while (left_s := moment_s - time.monotonic()) > 0:
            self._producer.poll(left_s)

    def finish(self) -> None:
        """Wait until each record is delivered or has failed."""
        deadline_s = time.monotonic() + DELIVERY_TIMEOUT_MS / 1000 + 5
        while (left := self._producer.flush(0.2)) and time.monotonic() < deadline_s:
            if self._rejection is not None:
                self._producer.purge()
        self.failed_count += left

    def _on_failure(self, error: KafkaError | None, _message: Message) -> None:
        assert error is not None
        self.failed_count += 1
        if self._rejection is not None:
            return
        reason = self._reason(error)
        if not _is_about_the_record(error):
            self._rejection = reason
        if self.failed_count <= FAILURES_SHOWN_MAX:
            note(f"not delivered: {reason}")

    def _reason(self, error: KafkaError) -> str:
        from confluent_kafka import KafkaError

        is_vague = error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR)
        return (is_vague and _why_read_only(self._cluster, self.topic)) or error.str()


def _is_about_the_record(error: KafkaError) -> bool:
    """Whether the error concerns only this record."""
    from confluent_kafka import KafkaError

    return error.code() in (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    )


@contextlib.contextmanager
def _open(file: Path | None) -> Iterator[tuple[BinaryIO, int | None]]:
    """The input, and its size if that is known."""
    if file is None:
        yield sys.stdin.buffer, None
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise HeadraceError(
            f"cannot read {file}: {error.strerror}", hint="check the path given with --file"
        ) from error
    with stream:
        yield stream, file.stat().st_size
