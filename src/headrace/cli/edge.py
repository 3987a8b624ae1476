"""`headrace edge`: bring events in from other protocols."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from headrace.cli.command import Bootstrap, command_group, connect
from headrace.cli.completion import complete_topics
from headrace.cli.output import Format, note, result, show
from headrace.cli.stopping import Stopping
from headrace.edges.counters import Count
from headrace.edges.settings import EdgeSettings, Policy, edge_settings
from headrace.kafka.errors import RequestFailed
from headrace.kafka.settings import client_config, client_settings

if TYPE_CHECKING:
    from headrace.edges.overload import Intake

app = command_group("Bring events in from other protocols. Every edge counts what it loses.")

LINE_BYTES_MAX = 100_000_000
"""A request to a broker has at most 100 MiB."""

FLUSH_MS_MIN = 100
"""A shorter window has more events than metrics."""

Topic = Annotated[
    str, typer.Option("--topic", "-t", help="The topic to write to.", autocompletion=complete_topics)
]
EdgeName = Annotated[
    str | None,
    typer.Option(
        "--name", help="Of the edge: in its metrics, and of its buffer. Default: such as statsd-TOPIC."
    ),
]
Overload = Annotated[
    Policy | None,
    typer.Option(
        help="If events arrive faster than the broker takes them: drop some, buffer on disk, or block. "
        "Default: [edge] overload in headrace.toml, else block."
    ),
]
EdgeDataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Folder of the buffer. Default: [edge] data_dir in headrace.toml, else data."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Port of Prometheus metrics at 127.0.0.1."),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Allow an address that other machines reach: senders authenticate nowhere."
    ),
]


@result("edge statsd")
class StatsdReport(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    packets: Annotated[int, "UDP datagrams, and lines over TCP"]
    dropped: Annotated[int, "UDP datagrams that the kernel dropped"]
    metrics: Annotated[int, "values that were counted"]
    garbage: Annotated[dict[str, int], "lines that were not counted, by reason"]
    events: Annotated[Count, "written to the topics"]


@app.command()
def statsd(
    topic: Topic,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="UDP address; port 0 is any free one.")
    ] = "127.0.0.1:8125",
    tcp: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="TCP address, too.")] = None,
    flush: Annotated[str, typer.Option(metavar="DURATION", help="Length of a window.")] = "10s",
    name: EdgeName = None,
    overload: Overload = None,
    data_dir: EdgeDataDir = None,
    metrics_port: MetricsPort = None,
    insecure: Insecure = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Receive StatsD metrics, aggregate them for each window, and write an event for each metric.

    \b
    headrace edge statsd --topic metrics
    headrace edge statsd --topic metrics --listen 127.0.0.1:8125 --tcp 127.0.0.1:8125 --flush 1s
    printf 'page.views:1|c|#env:prod' | nc -u -w0 127.0.0.1 8125
    headrace consume metrics --follow
    """
    from headrace.dead_letters import dead_letter_topic
    from headrace.durations import parse_duration_ms
    from headrace.edges.addresses import address_of, bind
    from headrace.edges.metrics import serve_metrics
    from headrace.edges.statsd.listener import StatsdListener
    from headrace.edges.statsd.settings import StatsdSettings

    flush_ms = parse_duration_ms(flush)
    if flush_ms < FLUSH_MS_MIN:
        raise typer.BadParameter(f"{flush} is shorter than {FLUSH_MS_MIN} ms", param_hint="--flush")
    edge = name or f"statsd-{topic}"
    settings = edge_settings(overload=overload, data_dir=data_dir)
    statsd_settings = StatsdSettings(name=edge, topic=topic, flush_ms=flush_ms)
    udp_socket = bind(listen, socket.SOCK_DGRAM, is_open=insecure)
    tcp_socket = bind(tcp, socket.SOCK_STREAM, is_open=insecure) if tcp else None
    with (
        Stopping() as stopping,
        _intake(edge, settings, bootstrap, topic, dead_letter_topic(topic)) as intake,
    ):
        listener = StatsdListener(statsd_settings, intake, udp_socket, tcp_socket)
        with serve_metrics(edge, intake.count, metrics_port, lost=listener.lost) as port:
            if listener.receive_buffer_bytes < statsd_settings.receive_buffer_bytes:
                note(
                    f"the kernel gives a buffer of {listener.receive_buffer_bytes:,} bytes: bursts may be dropped; "
                    f"`sysctl net.core.rmem_max={statsd_settings.receive_buffer_bytes}` allows more"
                )
            also = f" and {address_of(tcp_socket)} (TCP)" if tcp_socket else ""
            _note_ready("statsd", f"{address_of(udp_socket)}{also}", port)
            try:
                listener.run(lambda: stopping.is_wanted)
            finally:
                listener.close()
        count = intake.close()
    report = StatsdReport(
        name=edge,
        topic=topic,
        packets=listener.received,
        dropped=listener.dropped,
        metrics=listener.metrics,
        garbage=dict(listener.garbage),
        events=count,
    )
    lost = f"{report.dropped:,} dropped by the kernel, " if report.dropped else ""
    bad = f"{sum(report.garbage.values()):,} lines of garbage, " if report.garbage else ""
    show(
        report,
        format,
        f"{report.packets:,} packets, {lost}{bad}{report.metrics:,} metrics; events: {count.text()}",
    )
    raise typer.Exit(stopping.exit_code)


@result("edge tcp")
class TcpReport(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    connections: Annotated[int, "that were accepted"]
    connections_rejected: Annotated[int, "over the limit"]
    too_long: Annotated[int, "lines that were skipped"]
    events: Annotated[Count, "written to the topic"]


@app.command()
def tcp(
    topic: Topic,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="TCP address; port 0 is any free one.")
    ] = "127.0.0.1:9514",
    line_bytes_max: Annotated[
        int, typer.Option(min=1, max=LINE_BYTES_MAX, help="Longer lines are skipped and counted.")
    ] = 1_000_000,
    connections_max: Annotated[
        int, typer.Option(min=1, help="More connections are closed at once and counted.")
    ] = 1_000,
    name: EdgeName = None,
    overload: Overload = None,
    data_dir: EdgeDataDir = None,
    metrics_port: MetricsPort = None,
    insecure: Insecure = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Receive lines over TCP and write each as an event. With --overload block or buffer, full means: nothing is read.

    \b
    headrace edge tcp --topic logs
    headrace edge tcp --topic logs --listen 127.0.0.1:9514 --overload buffer
    tail -F app.log | nc 127.0.0.1 9514
    """
    from headrace.edges.addresses import address_of, bind
    from headrace.edges.metrics import serve_metrics
    from headrace.edges.tcp import TcpListener, TcpSettings

    edge = name or f"tcp-{topic}"
    settings = edge_settings(overload=overload, data_dir=data_dir)
    bound = bind(listen, socket.SOCK_STREAM, is_open=insecure)
    with Stopping() as stopping, _intake(edge, settings, bootstrap, topic) as intake:
        tcp_settings = TcpSettings(
            topic=topic, line_bytes_max=line_bytes_max, connections_max=connections_max
        )
        listener = TcpListener(tcp_settings, intake, bound)
        with serve_metrics(edge, intake.count, metrics_port, lost=listener.lost) as port:
            _note_ready("tcp", address_of(bound), port)
            try:
                listener.run(lambda: stopping.is_wanted)
            finally:
                listener.close()
        count = intake.close()
    connections = listener.connections
    report = TcpReport(
        name=edge,
        topic=topic,
        connections=connections.accepted,
        connections_rejected=connections.rejected,
        too_long=connections.too_long,
        events=count,
    )
    rejected = f" ({report.connections_rejected:,} rejected)" if report.connections_rejected else ""
    skipped = f"{report.too_long:,} lines too long, " if report.too_long else ""
    show(report, format, f"{report.connections:,} connections{rejected}, {skipped}lines: {count.text()}")
    raise typer.Exit(stopping.exit_code)


def _note_ready(kind: str, addresses: str, metrics_port: int | None) -> None:
    metrics = f"; metrics at http://127.0.0.1:{metrics_port}/metrics" if metrics_port is not None else ""
    note(f"headrace edge {kind} ready at {addresses}{metrics}")


@contextlib.contextmanager
def _intake(edge: str, settings: EdgeSettings, bootstrap: str | None, *topics: str) -> Iterator[Intake]:
    """The intake of an edge for topics that exist, or will be created by their first event."""
    from headrace.edges.overload import Intake

    config = _config(settings, bootstrap, topics)
    with Intake(config, settings, name=edge, on_problem=note) as intake:
        yield intake


def _config(settings: EdgeSettings, bootstrap: str | None, topics: tuple[str, ...]) -> dict[str, Any]:
    from headrace.dead_letters import TOPIC_CONFIG, TOPIC_PREFIX

    try:
        cluster = connect(bootstrap)
    except RequestFailed as error:
        if settings.overload != "buffer":
            raise
        note(f"{error.message}; events wait in the buffer")
        return client_config(client_settings(bootstrap).bootstrap)
    existing = cluster.topics()
    for topic in topics:
        if topic.startswith(TOPIC_PREFIX):
            cluster.create_topic(topic, config=TOPIC_CONFIG, exist_ok=True)
        elif topic not in existing:
            cluster.create_by_use(topic)
    return cluster.client_config()
