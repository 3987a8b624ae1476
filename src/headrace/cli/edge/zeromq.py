"""`headrace edge zeromq`: a topic as messages of ZeroMQ, and such messages as a topic."""

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

app = command_group("ZeroMQ with sequence numbers: publish a topic, subscribe to a publisher.")


@app.command("publish")
def publish_messages(
    topic: SentTopic,
    bind: Annotated[str, typer.Option(metavar="URL", help="Address to listen on.")],
    subject: Annotated[
        str | None, typer.Option(help="First frame of each message. Default: the topic; --plain has none.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for slow subscribers instead of dropping their messages.")
    ] = False,
    pipeline: Annotated[
        bool, typer.Option("--pipeline", help="PUSH instead of PUB: one PULL socket, which is waited for.")
    ] = False,
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
    """Send the records of a topic to ZeroMQ subscribers. Their offsets are the numbers by which receivers find gaps.

    \b
    headrace edge zeromq publish --topic sensors --bind tcp://127.0.0.1:5555
    headrace edge zeromq publish --topic sensors --bind tcp://127.0.0.1:5555 --plain
    """
    from headrace.edges.direct.urls import check_bind
    from headrace.edges.direct.zeromq import Pattern, ZeroMQSink

    check_bind(bind, is_open=insecure)
    options = Publishing(
        kind="zeromq",
        name=name or f"zeromq-{topic}-out",
        topic=topic,
        group=group_id,
        from_beginning=from_beginning,
        heartbeat=heartbeat,
        is_plain=plain,
        metrics_port=metrics_port,
        format=format,
        bootstrap=bootstrap,
    )
    pattern: Pattern = "pipeline" if pipeline else "pubsub"
    frame = None if plain else subject or topic
    publish(options, lambda: ZeroMQSink(bind, subject=frame, pattern=pattern, waits=wait))


@app.command("subscribe")
def subscribe(
    topic: Topic,
    connect: Annotated[
        list[str], typer.Option(metavar="URL", help="Address of a publisher; repeat it for several.")
    ],
    prefix: Annotated[str, typer.Option(help="Messages whose first frame begins so.")] = "",
    pipeline: Annotated[bool, typer.Option("--pipeline", help="PULL instead of SUB.")] = False,
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
    """Write the messages of ZeroMQ publishers to a topic, in order, each once; count gaps, or recover them.

    \b
    headrace edge zeromq subscribe --connect tcp://127.0.0.1:5555 --topic readings
    headrace edge zeromq subscribe --connect tcp://127.0.0.1:5555 --topic readings --recover-topic sensors
    headrace edge zeromq subscribe --connect tcp://127.0.0.1:5556 --topic weather --plain --prefix 10001
    """
    from headrace.edges.direct.urls import check_connect
    from headrace.edges.direct.zeromq import ZeroMQSource

    urls = [check_connect(each) for each in connect]
    options = Receiving(
        kind="zeromq",
        name=name or f"zeromq-{topic}",
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
    receive(options, lambda: ZeroMQSource(urls, pattern="pipeline" if pipeline else "pubsub", prefix=prefix))
