"""`headrace edge files`: lines of log files as events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import Struct
from msgspec.structs import replace

from headrace.cli.command import Bootstrap
from headrace.cli.edge.intake import note_ready, open_intake
from headrace.cli.edge.options import EdgeDataDir, EdgeName, MetricsPort, Overload, Topic
from headrace.cli.edge.tcp import LINE_BYTES_MAX
from headrace.cli.output import Format, note, result, show
from headrace.cli.stopping import Stopping
from headrace.edges.counters import Count
from headrace.edges.event import Reason
from headrace.edges.settings import EdgeSettings, edge_settings

if TYPE_CHECKING:
    from headrace.edges.files.follower import FileFollower
    from headrace.edges.files.parsing import Parse
    from headrace.edges.files.settings import FilesSettings

ParseAs = Literal["none", "combined", "json", "logfmt", "regex"]

POLL_MS_MIN = 10
"""A shorter pause is a busy loop."""


@result("edge files")
class FilesReport(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    files: Annotated[int, "that are followed at the end"]
    lines: Annotated[int, "events that were read"]
    too_long: Annotated[int, "lines that were cut or skipped"]
    not_parsed: Annotated[int, "lines that became dead letters"]
    rotated: Annotated[int, "files that were renamed or deleted"]
    truncated: Annotated[int, "files that became shorter"]
    gone: Annotated[int, "files that ended before they were read to their end"]
    unreadable: Annotated[dict[str, str], "files that can't be read, with the reason"]
    events: Annotated[Count, "written to the topic; pending ones are read again by the next run"]


def files(
    patterns: Annotated[
        list[str],
        typer.Argument(metavar="PATTERN...", help="Files; quote a pattern, so that new files are found."),
    ],
    topic: Topic,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="At the first start, read what the files have.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Read all files from the beginning to their end, and end.")
    ] = False,
    key: Annotated[
        Literal["file", "none"],
        typer.Option(help="file: the lines of a file are in one partition, in order."),
    ] = "file",
    headers: Annotated[bool, typer.Option(help="Headers file, file.id and offset of each event.")] = True,
    parse: Annotated[
        ParseAs, typer.Option(help="Turn lines into JSON. A line that does not parse becomes a dead letter.")
    ] = "none",
    regex: Annotated[
        str | None, typer.Option(metavar="REGEX", help="For --parse regex: named groups become fields.")
    ] = None,
    multiline_start: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="The first line of an event; others continue it, as in stack traces."
        ),
    ] = None,
    multiline_wait: Annotated[
        str, typer.Option(metavar="DURATION", help="After it, an event that no line follows is complete.")
    ] = "1s",
    partial_wait: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="After it, a last line without its end is an event. Default: it waits."
        ),
    ] = None,
    line_bytes_max: Annotated[
        int, typer.Option(min=1, max=LINE_BYTES_MAX, help="Of an event. Longer ones are counted.")
    ] = 1_000_000,
    when_long: Annotated[
        Literal["cut", "skip"], typer.Option(help="What happens to a line that is too long.")
    ] = "cut",
    poll: Annotated[
        str, typer.Option(metavar="DURATION", help="The pause between two looks at the files.")
    ] = "250ms",
    rotate_wait: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How long a renamed or deleted file is followed after its last line."
        ),
    ] = "1m",
    open_files_max: Annotated[
        int, typer.Option(min=1, help="Files that are open. There may be more to follow.")
    ] = 512,
    name: EdgeName = None,
    overload: Overload = None,
    data_dir: EdgeDataDir = None,
    metrics_port: MetricsPort = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Follow log files through rotation, and write each line as an event.

    \b
    headrace edge files '/var/log/nginx/*.log' --topic web-logs --parse combined
    headrace edge files 'logs/**/*.log' --topic app-logs --multiline-start '^\\d{4}-'
    headrace edge files import.log --topic imported --once
    """
    from headrace.durations import parse_duration_ms
    from headrace.edges.files.settings import FilesSettings

    poll_ms = parse_duration_ms(poll)
    if poll_ms < POLL_MS_MIN:
        raise typer.BadParameter(f"{poll} is shorter than {POLL_MS_MIN} ms", param_hint="--poll")
    settings = FilesSettings(
        name=name or f"files-{topic}",
        patterns=tuple(patterns),
        topic=topic,
        from_beginning=from_beginning or once,
        is_once=once,
        key_of=key,
        has_headers=headers,
        line_bytes_max=line_bytes_max,
        when_long=when_long,
        multiline_start=multiline_start,
        multiline_wait_s=parse_duration_ms(multiline_wait) / 1000,
        partial_wait_s=None if partial_wait is None else parse_duration_ms(partial_wait) / 1000,
        poll_s=poll_ms / 1000,
        rotate_wait_s=parse_duration_ms(rotate_wait) / 1000,
        open_files_max=open_files_max,
    )
    with Stopping() as stopping:
        report = _follow(
            settings,
            _parser(parse, regex),
            stopping,
            edge_settings(overload=overload, data_dir=data_dir),
            metrics_port=metrics_port,
            bootstrap=bootstrap,
        )
    show(report, format, _text(report))
    raise typer.Exit(stopping.exit_code)


def _parser(parse: ParseAs, regex: str | None) -> Parse | None:
    from headrace.edges.files.parsing import parser_of

    if parse == "none":
        if regex is not None:
            raise typer.BadParameter("--regex is for --parse regex")
        return None
    return parser_of(parse, regex)


def _follow(
    settings: FilesSettings,
    parse: Parse | None,
    stopping: Stopping,
    edge: EdgeSettings,
    *,
    metrics_port: int | None,
    bootstrap: str | None,
) -> FilesReport:
    from headrace.dead_letters import dead_letter_topic
    from headrace.edges.files.follower import FileFollower
    from headrace.edges.files.positions import Positions
    from headrace.edges.metrics import serve_metrics

    topics = [settings.topic] if parse is None else [settings.topic, dead_letter_topic(settings.topic)]
    with open_intake(settings.name, edge, bootstrap, *topics) as intake:
        positions = Positions(edge.data_dir / "edges" / settings.name)
        follower = FileFollower(settings, intake, positions, parse=parse, on_problem=note)
        try:
            with serve_metrics(settings.name, intake.count, metrics_port, lost=follower.lost) as port:
                note_ready("files", f"{len(follower.files)} files", port)
                follower.run(lambda: stopping.is_wanted)
            count = intake.close()
        finally:
            follower.close()
    return _report(settings, follower, count)


def _report(settings: FilesSettings, follower: FileFollower, count: Count) -> FilesReport:
    dropped = dict(count.dropped)
    unread = dropped.pop(Reason.STOPPED, 0)  # they are still in their files
    counts = follower.files.counts
    return FilesReport(
        name=settings.name,
        topic=settings.topic,
        files=len(follower.files),
        lines=follower.lines,
        too_long=follower.files.too_long,
        not_parsed=follower.not_parsed,
        rotated=counts["rotated"],
        truncated=counts["truncated"],
        gone=counts["gone"],
        unreadable=follower.files.unreadable,
        events=replace(count, dropped=dropped, pending=count.pending + unread),
    )


def _text(report: FilesReport) -> str:
    parts = [f"{report.files:,} files", f"{report.lines:,} lines"]
    for count, what in (
        (report.too_long, "too long"),
        (report.not_parsed, "not parsed"),
        (report.gone, "files gone before their end"),
        (len(report.unreadable), "files unreadable"),
    ):
        if count:
            parts.append(f"{count:,} {what}")
    return f"{', '.join(parts)}; events: {report.events.text()}"
