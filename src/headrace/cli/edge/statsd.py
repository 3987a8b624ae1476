"""`headrace edge statsd`: StatsD metrics as events."""

from __future__ import annotations

import socket
from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.command import Bootstrap
from headrace.cli.edge.intake import note_ready, open_intake
from headrace.cli.edge.options import EdgeDataDir, EdgeName, Insecure, MetricsPort, Overload, Topic
from headrace.cli.output import Format, note, result, show
from headrace.cli.stopping import Stopping
from headrace.edges.counters import Count
from headrace.edges.settings import edge_settings

FLUSH_MS_MIN = 100
"""A shorter window has more events than metrics."""


@result("edge statsd")
class StatsdReport(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    packets: Annotated[int, "UDP datagrams, and lines over TCP"]
    dropped: Annotated[int, "UDP datagrams that the kernel dropped"]
    metrics: Annotated[int, "values that were counted"]
    garbage: Annotated[dict[str, int], "lines that were not counted, by reason"]
    events: Annotated[Count, "written to the topics"]


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
        open_intake(edge, settings, bootstrap, topic, dead_letter_topic(topic)) as intake,
    ):
        listener = StatsdListener(statsd_settings, intake, udp_socket, tcp_socket)
        with serve_metrics(edge, intake.count, metrics_port, lost=listener.lost) as port:
            if listener.receive_buffer_bytes < statsd_settings.receive_buffer_bytes:
                note(
                    f"the kernel gives a buffer of {listener.receive_buffer_bytes:,} bytes: bursts may be dropped; "
                    f"`sysctl net.core.rmem_max={statsd_settings.receive_buffer_bytes}` allows more"
                )
            also = f" and {address_of(tcp_socket)} (TCP)" if tcp_socket else ""
            note_ready("statsd", f"{address_of(udp_socket)}{also}", port)
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
