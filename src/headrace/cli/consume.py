"""`headrace consume`: read topics to standard output, once or following."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from headrace.bootstrap import client_settings
from headrace.cli.consume_output import RecordFormat, record_writer
from headrace.cli.moments import parse_time_ms
from headrace.cli.settings import Bootstrap
from headrace.cli.stopping import Stopping

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="What to read.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="From the oldest record that is there.")
    ] = False,
    offset: Annotated[
        int | None, typer.Option("--offset", min=0, help="From this offset of each partition.")
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option("--from-time", metavar="TIME", help="From this time on (ISO 8601, or ms since 1970)."),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", min=1, help="The last N records of each partition.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only this one; repeatable.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Read as a member of this group, and commit.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")
    ] = None,
    format: Annotated[
        RecordFormat,
        typer.Option(
            "--format",
            help="value: a line each. text: with time, place, key. json: all of it. binary: bare bytes.",
        ),
    ] = RecordFormat.VALUE,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", metavar="TEXT", help="value: print the key before it, with this between."
        ),
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Read records to standard output, until the end as it was at the start, or for as long as you --follow.

    Without a start option it begins at the oldest record, or with --follow at the end, as `tail -f` does.
    In a --group a start option only counts where the group has committed nothing yet; `headrace group reset`
    moves it otherwise.
    What retention has taken away before it could be read is told on standard error.

    \b
    headrace consume clicks --from-beginning
    headrace consume clicks --follow --format json
    headrace consume clicks --last 10 --partition 0
    headrace consume clicks --from-time 2026-11-15T10:30:00Z --count 100
    headrace consume orders --group billing --follow
    """
    starts = [from_beginning, offset is not None, from_time is not None, last is not None]
    if sum(starts) > 1:
        raise typer.BadParameter("give one of --from-beginning, --offset, --from-time and --last")
    if partition and group:
        raise typer.BadParameter("a group shares out partitions by itself: leave --partition or --group")
    time_ms = None if from_time is None else parse_time_ms(from_time)

    from headrace.cli.cluster import Cluster
    from headrace.cli.reading import Reading, Start

    cluster = Cluster(client_settings(bootstrap))
    start = Start(
        beginning=from_beginning or not (any(starts) or follow), offset=offset, time_ms=time_ms, last=last
    )
    reading = Reading(
        cluster, topics=topics, partitions=partition or [], start=start, follow=follow, group=group
    )
    write = record_writer(format, sys.stdout.buffer, key_separator)
    try:
        with Stopping() as stopping, reading:
            reading.run(write, flush=sys.stdout.buffer.flush, count_max=count, stopping=stopping)
    except BrokenPipeError:
        # The reader has had enough (`| head`); Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(stopping.exit_code)
