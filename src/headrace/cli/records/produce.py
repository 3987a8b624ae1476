"""`headrace produce`: lines, JSON or bytes into a topic."""

from __future__ import annotations

import contextlib
import functools
import select
import sys
import time
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer
from msgspec import Struct

from headrace.cli.arguments import parse_pairs, unescape
from headrace.cli.command import Bootstrap, RegistryAddress, command_app, connect
from headrace.cli.completion import complete_topics
from headrace.cli.output import OutputFormat, note, progress_bar, result, show
from headrace.cli.records.bulk_sender import BulkSender, bulk_is_possible
from headrace.cli.records.produce_input import (
    BLOCK_BYTES,
    RECORD_BYTES_MAX,
    BadLine,
    Block,
    InputFormat,
    LineRules,
    read_chunks,
    read_lines,
)
from headrace.cli.records.sender import DELIVERY_TIMEOUT_MS, Sender
from headrace.errors import HeadraceError
from headrace.kafka.errors import RequestFailed
from headrace.names import nearest

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

# The retries of a request that the broker rejects, which take four seconds. The client's default bound is the
# delivery timeout, after which it no longer reports the broker's error.
RETRIES_MAX = 6
# The client's default.
BATCH_BYTES_MAX = 1_000_000
# The client's own bound of 100,000 records is less than a tenth of a second of short lines; the other is of bytes.
QUEUED_RECORDS_MAX = 500_000
QUEUED_KILOBYTES_MAX = 256 * 1024


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
        encode=_encode(registry, schema_subject),
    )
    headers: list[tuple[str, str | bytes | None]] = [
        (name, value.encode()) for name, value in parse_pairs(header or (), option="--header").items()
    ]

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
            # The broker rejects a batch as a whole: a record that is too large has to be alone in its own.
            batch_size=_batch_bytes_max(cluster, topic),
            queue_buffering_max_messages=QUEUED_RECORDS_MAX,
            queue_buffering_max_kbytes=QUEUED_KILOBYTES_MAX,
            # The same key goes to the same partition as with a Java client.
            partitioner="murmur2_random",
            # A report for each record would cost a third of the time. What does not fail is delivered.
            delivery_report_only_error=True,
        )
    )
    is_same_key = key_separator is None and not tombstones
    sender = Sender(
        cluster,
        producer,
        topic,
        headers=headers,
        partition=-1 if partition is None else partition,
        bulk=functools.partial(
            BulkSender,
            cluster,
            topic,
            key=fixed_key,
            headers=headers,
            partition=partition,
            codec=compression,
            timeout_s=DELIVERY_TIMEOUT_MS / 1000,
        )
        if acks == "all" and is_same_key and bulk_is_possible(cluster)
        else None,
    )
    label = file.name if file else ""
    with _open(file) as (stream, input_bytes), progress_bar(label, input_bytes) as on_progress:
        if format == "binary":
            blocks = read_chunks(stream, chunk_bytes, key=fixed_key)
        else:
            blocks = read_lines(stream, rules)
        _send_all(
            sender,
            blocks,
            skip_bad=skip_bad,
            rate=rate,
            on_progress=on_progress,
            has_more=functools.partial(_has_more, stream),
            report=report,
        )


def _encode(registry: str | None, subject: str | None) -> Callable[[bytes], bytes] | None:
    if subject is None:
        return None
    from headrace.cli.records.registered import record_writer_of

    return record_writer_of(registry, subject)


def _batch_bytes_max(cluster: Cluster, topic: str) -> int:
    try:
        limit = cluster.configs("topic", topic)["max.message.bytes"].value
    except (RequestFailed, KeyError):  # the topic is new, and not every broker knows it yet
        return BATCH_BYTES_MAX
    return min(int(str(limit)), BATCH_BYTES_MAX)


def _ensure_topic(cluster: Cluster, topic: str) -> None:
    others = cluster.topics()
    if topic not in others:
        cluster.create_by_use(topic)
        if near := nearest(topic, others):
            note(f"headrace: created topic {topic}; topic {near} exists too")


def _send_all(
    sender: Sender,
    blocks: Iterator[Block | BadLine],
    *,
    skip_bad: bool,
    rate: float | None,
    on_progress: Callable[[int], None],
    has_more: Callable[[], bool],
    report: OutputFormat,
) -> None:
    bad_lines = input_bytes = 0
    started_s = time.monotonic()
    try:
        for block in blocks:
            if isinstance(block, Block):
                _send_block(sender, block, rate, started_s)
                if not has_more():
                    sender.settle()
                input_bytes += block.input_bytes
                on_progress(input_bytes)
            elif skip_bad:
                bad_lines += 1
            else:
                raise HeadraceError(
                    f"line {block.number}: {block.reason}",
                    hint="nothing after it was sent; --skip-bad skips such lines",
                )
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


def _send_block(sender: Sender, block: Block, rate: float | None, started_s: float) -> None:
    if rate is None:
        sender.send_block(block)
        return
    for record in block.records:
        sender.wait_until(started_s + sender.sent_count / rate)
        sender.send([record])


def _report(done: Produced, elapsed_s: float) -> str:
    parts = [f"{done.records} records to {done.topic} in {elapsed_s:.2f} s"]
    parts.append(f"{done.records / max(elapsed_s, 1e-9):,.0f} records/s")
    if done.bad_lines:
        parts.append(f"{done.bad_lines} bad lines skipped")
    if done.failed:
        parts.append(f"{done.failed} failed")
    return ", ".join(parts)


@contextlib.contextmanager
def _open(file: Path | None) -> Iterator[tuple[BufferedIOBase, int | None]]:
    """The input, and its size if that is known."""
    if file is None:
        _widen(sys.stdin.fileno())
        yield cast("BufferedIOBase", sys.stdin.buffer), None
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise HeadraceError(
            f"cannot read {file}: {error.strerror}", hint="check the path given with --file"
        ) from error
    with stream:
        yield stream, file.stat().st_size


def _widen(descriptor: int) -> None:
    """Let a pipe hold a whole block, where the system can: Linux gives 64 KiB by default."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, BLOCK_BYTES)


def _has_more(stream: BufferedIOBase) -> bool:
    """Whether there is input, or its end, without a wait."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # the system can do that with sockets only
        return False
