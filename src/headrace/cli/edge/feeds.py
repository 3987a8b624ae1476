"""What `headrace edge multicast`, `zeromq` and `nng` share: how they run, and their reports."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from headrace.cli.command import connect
from headrace.cli.edge.intake import note_ready, open_intake
from headrace.cli.output import OutputFormat, note, result, show
from headrace.cli.stopping import Stopping
from headrace.edges.counters import Count
from headrace.edges.settings import EdgeSettings
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.edges.direct.recovery import Recovery
    from headrace.edges.direct.resuming import Resumed
    from headrace.edges.direct.transport import Sink, Source
    from headrace.edges.overload import Intake

INTERVAL_MS_MIN = 100
"""A shorter interval has more of its own events than others."""

GC_THRESHOLD = 50_000

REPLAYED_S = 10.0
"""How long a start waits until the buffer of the last run is delivered."""


@result("edge multicast receive", "edge zeromq subscribe", "edge nng subscribe")
class ReceiverReport(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    messages: Annotated[int, "datagrams, or messages of ZeroMQ or nng"]
    received: Annotated[int, "events that arrived, each once"]
    missing: Annotated[int, "events that neither arrived nor were recovered"]
    recovered: Annotated[int, "events that were read from the topic of the publisher"]
    duplicates: Annotated[int, "events that arrived again"]
    late: Annotated[int, "events that arrived after their gap was declared"]
    reordered: Annotated[int, "packets that arrived out of order"]
    kernel: Annotated[int, "datagrams that the kernel dropped"]
    garbage: Annotated[dict[str, int], "messages that are no packets, by reason"]
    events: Annotated[Count, "written to the topics"]


@result("edge multicast publish", "edge zeromq publish", "edge nng publish")
class PublisherReport(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    events: Annotated[int, "that were sent"]
    packets: Annotated[int, "datagrams, or messages of ZeroMQ or nng, without heartbeats"]
    heartbeats: Annotated[int, "packets without events"]
    too_large: Annotated[int, "events that the transport does not take"]
    deleted: Annotated[int, "numbers that retention deleted before they were sent"]
    waits: Annotated[int, "how often the transport took nothing, and was tried again"]


class Receiving(Struct, frozen=True, kw_only=True):
    """The options of an incoming edge."""

    kind: str
    name: str
    topic: str
    settings: EdgeSettings
    interval: str
    loss_topic: str | None
    recover_topic: str | None
    recover_from: str | None
    is_plain: bool
    metrics_port: int | None
    format: OutputFormat
    bootstrap: str | None


class Publishing(Struct, frozen=True, kw_only=True):
    """The options of an outgoing edge."""

    kind: str
    name: str
    topic: str
    group: str | None
    from_beginning: bool
    heartbeat: str
    is_plain: bool
    metrics_port: int | None
    format: OutputFormat
    bootstrap: str | None


def receive(options: Receiving, open_source: Callable[[], Source]) -> None:
    """Run an incoming edge until it is stopped."""
    from headrace.dead_letters import dead_letter_topic
    from headrace.durations import parse_duration_ms
    from headrace.edges.direct.receiver import Receiver
    from headrace.edges.direct.settings import ReceiverSettings
    from headrace.edges.metrics import serve_metrics

    interval_ms = parse_duration_ms(options.interval)
    if interval_ms < INTERVAL_MS_MIN:
        raise typer.BadParameter(
            f"{options.interval} is shorter than {INTERVAL_MS_MIN} ms", param_hint="--interval"
        )
    settings = ReceiverSettings(
        name=options.name,
        topic=options.topic,
        loss_topic=options.loss_topic or f"{options.topic}.loss",
        interval_ms=interval_ms,
    )
    topics = [settings.topic, settings.loss_topic]
    if not options.is_plain:
        topics.append(dead_letter_topic(settings.topic))
    with (
        Stopping() as stopping,
        open_intake(
            options.name, options.settings, options.bootstrap, *topics, marks_drops=options.is_plain
        ) as intake,
        _recovery(options) as recovery,
        contextlib.closing(open_source()) as source,
    ):
        receiver = Receiver(
            settings,
            intake,
            source,
            recovery=recovery,
            resumed={} if options.is_plain else _resumed(options, settings.tail_records, intake),
            is_plain=options.is_plain,
            on_problem=note,
        )
        with serve_metrics(
            options.name,
            intake.count,
            options.metrics_port,
            lost=receiver.lost,
            counted=receiver.counted,
        ) as port:
            note_ready(options.kind, source.address, port)
            _collect_garbage_rarely()
            receiver.run(lambda: stopping.is_wanted)
        count = intake.close()
    tally = receiver.tally
    report = ReceiverReport(
        name=options.name,
        topic=options.topic,
        messages=tally.messages,
        received=tally.received,
        missing=tally.missing,
        recovered=tally.recovered,
        duplicates=tally.duplicates,
        late=tally.late,
        reordered=tally.reordered,
        kernel=tally.kernel,
        garbage=dict(tally.garbage),
        events=count,
    )
    show(report, options.format, _received_text(report))
    raise typer.Exit(stopping.exit_code)


def _collect_garbage_rarely() -> None:
    """Events are many objects without cycles: looking at them takes as much time as everything else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def _received_text(report: ReceiverReport) -> str:
    found = [
        (report.missing, "missing"),
        (report.recovered, "recovered"),
        (report.duplicates, "duplicates"),
        (report.late, "late"),
        (report.kernel, "packets dropped by the kernel"),
        (sum(report.garbage.values()), "packets of garbage"),
    ]
    details = "".join(f", {count:,} {text}" for count, text in found if count)
    return (
        f"{report.messages:,} packets, {report.received:,} events{details}; written: {report.events.text()}"
    )


@contextlib.contextmanager
def _recovery(options: Receiving) -> Iterator[Recovery | None]:
    from headrace.edges.direct.recovery import TIMEOUT_S, Recovery
    from headrace.kafka.cluster import Cluster
    from headrace.kafka.settings import client_settings

    if options.recover_topic is None:
        if options.recover_from is not None:
            raise typer.BadParameter("needs --recover-topic, too", param_hint="--recover-from")
        yield None
        return
    settings = client_settings(options.recover_from or options.bootstrap)
    if options.recover_topic == options.topic and options.recover_from is None:
        raise typer.BadParameter("is the topic that is written", param_hint="--recover-topic")
    cluster = Cluster(settings.bootstrap, timeout_s=TIMEOUT_S, config={"error_cb": lambda _error: None})
    with contextlib.closing(Recovery(cluster, options.recover_topic)) as recovery:
        yield recovery


def _resumed(options: Receiving, records: int, intake: Intake) -> dict[int, Resumed]:
    """Where the streams of an earlier run continue, after its buffer is delivered."""
    from headrace.edges.direct.resuming import resume
    from headrace.edges.direct.tails import read_tails

    deadline_s = time.monotonic() + REPLAYED_S
    while intake.count().pending and time.monotonic() < deadline_s:
        time.sleep(0.05)
    try:
        return resume(read_tails(connect(options.bootstrap), options.topic, records=records))
    except HeadraceError as error:
        if options.settings.overload != "buffer":
            raise
        note(f"{error.message}; what was lost since the last run is not counted")
        return {}


def publish(options: Publishing, open_sink: Callable[[], Sink]) -> None:
    """Run an outgoing edge until it is stopped."""
    from headrace.durations import parse_duration_ms
    from headrace.edges.direct.publisher import Publisher
    from headrace.edges.direct.settings import PublisherSettings
    from headrace.edges.metrics import serve_metrics

    cluster = connect(options.bootstrap)
    cluster.require_topics([options.topic])
    settings = PublisherSettings(
        topic=options.topic,
        group=options.group or options.name,
        from_beginning=options.from_beginning,
        heartbeat_ms=parse_duration_ms(options.heartbeat),
    )
    with Stopping() as stopping, contextlib.closing(open_sink()) as sink:
        publisher = Publisher(settings, cluster, sink, is_plain=options.is_plain, on_problem=note)
        with (
            contextlib.closing(publisher),
            serve_metrics(
                options.name, None, options.metrics_port, lost=publisher.lost, counted=publisher.counted
            ) as port,
        ):
            publisher.run(lambda: stopping.is_wanted, lambda: note_ready(options.kind, sink.address, port))
    sent = publisher.published
    report = PublisherReport(
        name=options.name,
        topic=options.topic,
        events=sent.events,
        packets=sent.packets,
        heartbeats=sent.heartbeats,
        too_large=sent.too_large,
        deleted=sent.deleted,
        waits=sent.waits,
    )
    lost = f", {sent.too_large:,} too large" if sent.too_large else ""
    deleted = f", {sent.deleted:,} deleted before they were sent" if sent.deleted else ""
    show(report, options.format, f"{sent.events:,} events in {sent.packets:,} packets{lost}{deleted}")
    raise typer.Exit(stopping.exit_code)
