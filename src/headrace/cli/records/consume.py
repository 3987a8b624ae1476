"""`headrace consume`: read topics to standard output, once or following."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli.arguments import unescape
from headrace.cli.command import Bootstrap, RegistryAddress, command_app, connect
from headrace.cli.completion import complete_groups, complete_topics
from headrace.cli.output import ended_by_closed_pipe
from headrace.cli.records.consume_output import ContentFormat, RecordFormat, record_writer, template_writer
from headrace.cli.stopping import Stopping
from headrace.clock import SystemClock
from headrace.times import parse_time_ms

app = command_app()


@app.command()
def consume(
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC...", help="The topics to read.", autocompletion=complete_topics),
    ],
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="From the oldest record.")] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="N|-N|beginning|end",
            help="From this offset of each partition; -N: from N before the end.",
        ),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="From this time on: ISO 8601, ms since 1970, or 1h for an hour ago."
        ),
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, help="The last N records of each partition.")] = None,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this one; repeatable.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Continue with new records, until Ctrl-C.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Read as a member of this group, and commit.",
            autocompletion=complete_groups,
        ),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after N records.")] = None,
    format: Annotated[
        RecordFormat,
        typer.Option(
            help="value: a line each. text: with time, offset, key. json: all fields. binary: bare bytes."
        ),
    ] = "value",
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            "-f",
            metavar="TEXT",
            help="Instead of --format, kcat's: %t topic, %p partition, %o offset, %T time in ms, %k key, %s value, "
            "%h headers, %K and %S lengths, %R length as 4 bytes, \\n and \\t.",
        ),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="value: print the key before it, separated by this (\\t, \\x1f: as in C)."
        ),
    ] = None,
    value_format: Annotated[
        ContentFormat,
        typer.Option(help="registry: JSON, by the schema whose id each value has. bytes: as it is."),
    ] = "bytes",
    key_format: Annotated[ContentFormat, typer.Option(help="The same for keys.")] = "bytes",
    registry: RegistryAddress = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Read records to standard output, up to the current end, or until Ctrl-C with --follow.

    Without a start option it starts at the oldest record, or with --follow at the end, as `tail -f` does.
    In a --group a start option only applies to partitions without a committed offset; `headrace group seek`
    moves the others.
    Records that retention removed before they could be read are reported on standard error.

    \b
    headrace consume clicks --from-beginning
    headrace consume clicks --follow --format json
    headrace consume clicks --last 10 --partition 0
    headrace consume clicks --from-time 1h --count 100
    headrace consume clicks --from-time 2026-11-15T10:30:00Z
    headrace consume clicks --offset -5 -f '%p:%o %k=%s\\n'
    headrace consume orders --group billing --follow
    headrace consume orders --value-format registry
    """
    starts = [from_beginning, offset is not None, from_time is not None, last is not None]
    if sum(starts) > 1:
        raise typer.BadParameter("give one of --from-beginning, --offset, --from-time and --last")
    if partition and group:
        raise typer.BadParameter(
            "a group assigns partitions to its members: give --partition or --group, not both"
        )
    if template is not None and (format != "value" or key_separator is not None):
        raise typer.BadParameter("--template replaces --format and --key-separator: do not combine them")
    time_ms = None if from_time is None else parse_time_ms(from_time, SystemClock().now_ms())
    separator = None if key_separator is None else unescape(key_separator, option="--key-separator")
    to_bytes = record_writer(format, separator) if template is None else template_writer(template)

    from headrace.cli.records.reading import Reading, Start, parse_offset

    if offset is not None:
        start = parse_offset(offset)
    else:
        is_beginning = from_beginning or not (any(starts) or follow)
        start = Start(beginning=is_beginning, time_ms=time_ms, last=last)
    if "registry" in (value_format, key_format):
        from headrace.cli.records.registered import decoded_writer

        to_bytes = decoded_writer(to_bytes, registry, value_format=value_format, key_format=key_format)
    cluster = connect(bootstrap)
    reading = Reading(
        cluster, topics=topics, partitions=partition or [], start=start, follow=follow, group=group
    )
    with ended_by_closed_pipe(), Stopping() as stopping, reading:
        reading.run(to_bytes, sys.stdout.buffer, count_max=count, stopping=stopping)
    raise typer.Exit(stopping.exit_code)
