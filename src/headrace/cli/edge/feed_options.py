"""The options that `headrace edge multicast`, `zeromq` and `nng` share."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.completion import complete_topics

SentTopic = Annotated[
    str,
    typer.Option("--topic", "-t", help="The topic whose records are sent.", autocompletion=complete_topics),
]
Group = Annotated[
    str | None,
    typer.Option("--group-id", help="Consumer group whose offsets are the position. Default: the name."),
]
FromBeginning = Annotated[
    bool,
    typer.Option("--from-beginning", help="Without committed offsets: start with the first record."),
]
Heartbeat = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="How long after the last packet the next number is sent, if there is no event.",
    ),
]
Interval = Annotated[
    str, typer.Option(metavar="DURATION", help="Between two events that count what was lost.")
]
LossTopic = Annotated[
    str | None,
    typer.Option("--loss-topic", help="Where these events are written to. Default: TOPIC.loss."),
]
RecoverTopic = Annotated[
    str | None,
    typer.Option("--recover-topic", metavar="TOPIC", help="Read missing events from the publisher's topic."),
]
RecoverFrom = Annotated[
    str | None,
    typer.Option("--recover-from", metavar="HOST:PORT", help="Broker of that topic. Default: --bootstrap."),
]
PlainIn = Annotated[
    bool,
    typer.Option(
        "--plain", help="Each message is an event, of a publisher without numbers: losses can't be counted."
    ),
]
PlainOut = Annotated[
    bool,
    typer.Option(
        "--plain",
        help="Send keys and values without numbers, for other subscribers: they can't count losses.",
    ),
]
