"""`headrace edge tcp`: lines over TCP as events."""

from __future__ import annotations

import socket
from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.command import Bootstrap
from headrace.cli.edge.intake import note_ready, open_intake
from headrace.cli.edge.options import EdgeDataDir, EdgeName, Insecure, MetricsPort, Overload, Topic
from headrace.cli.output import Format, result, show
from headrace.cli.stopping import Stopping
from headrace.edges.counters import Count
from headrace.edges.settings import edge_settings

LINE_BYTES_MAX = 100_000_000
"""A request to a broker has at most 100 MiB."""


@result("edge tcp")
class TcpReport(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    connections: Annotated[int, "that were accepted"]
    connections_rejected: Annotated[int, "over the limit"]
    too_long: Annotated[int, "lines that were skipped"]
    events: Annotated[Count, "written to the topic"]


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
    with Stopping() as stopping, open_intake(edge, settings, bootstrap, topic) as intake:
        tcp_settings = TcpSettings(
            topic=topic, line_bytes_max=line_bytes_max, connections_max=connections_max
        )
        listener = TcpListener(tcp_settings, intake, bound)
        with serve_metrics(edge, intake.count, metrics_port, lost=listener.lost) as port:
            note_ready("tcp", address_of(bound), port)
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
