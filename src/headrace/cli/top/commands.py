"""`headrace top`: topics, groups and jobs of any broker, live."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from headrace.cli.command import Bootstrap, command_app, connect
from headrace.cli.output import Format

TIMEOUT_S_MAX = 5
"""A broker that does not respond in this time is reported; the next sample tries again."""

app = command_app()


@app.command()
def top(
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, help="Seconds between two samples.")
    ] = 1.0,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after N samples.")] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also show internal topics and groups.")
    ] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Watch a broker: topics with rates and sizes, groups and queues with lag, and jobs, until Ctrl-C.

    It works on Headrace and on Apache Kafka, and changes nothing there. Without a terminal it prints a line for
    each sample; with --format json an object.

    \b
    headrace top
    headrace top --bootstrap kafka.example:9092 --interval 5
    headrace top --count 2 --format json
    """
    from headrace.cli.top.look import watch

    cluster = connect(bootstrap, timeout_s_max=TIMEOUT_S_MAX)
    with contextlib.suppress(KeyboardInterrupt):
        watch(cluster, interval_s=interval, count_max=count, internal=internal, format=format)
