"""`headrace edge nng`: a topic as messages of nng, and such messages as a topic."""

from __future__ import annotations

from typing import Annotated

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
from headrace.cli.output import Format
from headrace.edges.settings import edge_settings

app = command_group("nng with sequence numbers: publish a topic, subscribe to a publisher.")


@app.command("publish")
def publish_messages(
    topic: SentTopic,
    bind: Annotated[str, typer.Option(metavar="URL", help="Address to listen on.")],
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
    """Send the records of a topic to subscribers of nng or nanomsg. Their offsets are the numbers: receivers find gaps.

    \b
    headrace edge nng publish --topic sensors --bind tcp://127.0.0.1:5560
    headrace edge nng publish --topic sensors --bind tcp://127.0.0.1:5560 --plain
    """
    from headrace.edges.direct.nng import NngSink
    from headrace.edges.direct.urls import check_bind

    check_bind(bind, is_open=insecure)
    options = Publishing(
        kind="nng",
        name=name or f"nng-{topic}-out",
        topic=topic,
        group=group_id,
        from_beginning=from_beginning,
        heartbeat=heartbeat,
        is_plain=plain,
        metrics_port=metrics_port,
        format=format,
        bootstrap=bootstrap,
    )
    publish(options, lambda: NngSink(bind))


@app.command("subscribe")
def subscribe(
    topic: Topic,
    connect: Annotated[
        list[str], typer.Option(metavar="URL", help="Address of a publisher; repeat it for several.")
    ],
    prefix: Annotated[str, typer.Option(help="Messages that begin so; for --plain.")] = "",
    recover_topic: RecoverTopic = None,
    recover_from: RecoverFrom = None,
    plain: PlainIn = False,
    name: EdgeName = None,
    interval: Interval = "10s",
    loss_topic: LossTopic = None,
    overload: Overload = None,
    data_dir: EdgeDataDir = None,
    metrics_port: MetricsPort = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Write the messages of nng or nanomsg publishers to a topic, in order, each once; count gaps, or recover them.

    \b
    headrace edge nng subscribe --connect tcp://127.0.0.1:5560 --topic readings
    headrace edge nng subscribe --connect tcp://127.0.0.1:5560 --topic readings --plain
    """
    from headrace.edges.direct.nng import NngSource
    from headrace.edges.direct.urls import check_connect

    urls = [check_connect(each) for each in connect]
    options = Receiving(
        kind="nng",
        name=name or f"nng-{topic}",
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
    receive(options, lambda: NngSource(urls, prefix=prefix))
