"""`headrace edge multicast`: a topic as a feed of UDP datagrams, and such a feed as a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.command import Bootstrap, command_group
from headrace.cli.edge.feed_options import (
    FromBeginning,
    Group,
    Heartbeat,
    Interval,
    LossTopic,
    PlainIn,
    PlainOut,
    RecoverFrom,
    RecoverTopic,
    SentTopic,
)
from headrace.cli.edge.feeds import Publishing, Receiving, publish, receive
from headrace.cli.edge.options import EdgeDataDir, EdgeName, Insecure, MetricsPort, Overload, Topic
from headrace.cli.output import Format, note
from headrace.edges.settings import edge_settings

if TYPE_CHECKING:
    from headrace.edges.direct.multicast import MulticastSource

DATAGRAM_BYTES = 1_400
"""Fits into the packets of an Ethernet, with room for headers of tunnels."""

TTL_MAX = 255

app = command_group("UDP multicast feeds with sequence numbers: publish a topic, receive a feed.")

Groups = Annotated[
    list[str],
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP:PORT",
        help="Multicast group; repeat it for feeds A and B of the same events.",
    ),
]
Interface = Annotated[
    str, typer.Option(metavar="ADDRESS", help="IPv4 address of the network interface of this machine.")
]


@app.command("publish")
def publish_feed(
    topic: SentTopic,
    group: Groups,
    interface: Interface = "127.0.0.1",
    ttl: Annotated[
        int, typer.Option(min=0, max=TTL_MAX, help="Routers that a datagram may pass, plus one.")
    ] = 1,
    datagram_bytes: Annotated[
        int,
        typer.Option(min=128, max=65_507, help="Several events share a datagram up to this size."),
    ] = DATAGRAM_BYTES,
    from_beginning: FromBeginning = False,
    group_id: Group = None,
    heartbeat: Heartbeat = "500ms",
    plain: PlainOut = False,
    name: EdgeName = None,
    metrics_port: MetricsPort = None,
    insecure: Insecure = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Send the records of a topic to a multicast group. Their offsets are the numbers by which receivers find gaps.

    \b
    headrace edge multicast publish --topic quotes --group 239.1.1.1:5007
    headrace edge multicast publish --topic quotes --group 239.1.1.1:5007 --group 239.1.1.2:5007
    headrace edge multicast publish --topic quotes --group 239.1.1.1:5007 --interface 10.0.0.7 --insecure
    """
    from headrace.edges.direct.multicast import MulticastSink, check_interface, parse_group

    groups = [parse_group(each) for each in group]
    check_interface(interface, is_open=insecure)
    options = Publishing(
        kind="multicast",
        name=name or f"multicast-{topic}-out",
        topic=topic,
        group=group_id,
        from_beginning=from_beginning,
        heartbeat=heartbeat,
        is_plain=plain,
        metrics_port=metrics_port,
        format=format,
        bootstrap=bootstrap,
    )
    publish(options, lambda: MulticastSink(groups, interface, ttl=ttl, datagram_bytes=datagram_bytes))


@app.command("receive")
def receive_feed(
    topic: Topic,
    group: Groups,
    interface: Interface = "127.0.0.1",
    recover_topic: RecoverTopic = None,
    recover_from: RecoverFrom = None,
    plain: PlainIn = False,
    name: EdgeName = None,
    interval: Interval = "10s",
    loss_topic: LossTopic = None,
    overload: Overload = None,
    data_dir: EdgeDataDir = None,
    metrics_port: MetricsPort = None,
    insecure: Insecure = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Write the events of a multicast group to a topic, in order, each once; count gaps, or recover them.

    \b
    headrace edge multicast receive --group 239.1.1.1:5007 --topic quotes-here
    headrace edge multicast receive --group 239.1.1.1:5007 --group 239.1.1.2:5007 --topic quotes-here
    headrace edge multicast receive --group 239.1.1.1:5007 --topic quotes-here --recover-topic quotes
    """
    from headrace.edges.direct.multicast import check_interface, parse_group

    groups = [parse_group(each) for each in group]
    check_interface(interface, is_open=insecure)
    options = Receiving(
        kind="multicast",
        name=name or f"multicast-{topic}",
        topic=topic,
        settings=edge_settings(overload=overload, data_dir=data_dir),
        interval=interval,
        loss_topic=loss_topic,
        recover_topic=recover_topic,
        recover_from=recover_from,
        is_plain=plain,
        metrics_port=metrics_port,
        format=format,
        bootstrap=bootstrap,
    )
    receive(options, lambda: _joined(groups, interface))


def _joined(groups: list[tuple[str, int]], interface: str) -> MulticastSource:
    from headrace.edges.direct.multicast import RECEIVE_BUFFER_BYTES, MulticastSource

    source = MulticastSource(groups, interface)
    if source.receive_buffer_bytes < RECEIVE_BUFFER_BYTES:
        note(
            f"the kernel gives a buffer of {source.receive_buffer_bytes:,} bytes: bursts may be dropped; "
            f"`sysctl net.core.rmem_max={RECEIVE_BUFFER_BYTES}` allows more"
        )
    return source
