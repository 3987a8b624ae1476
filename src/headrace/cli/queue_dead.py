"""`headrace queue dead`: a group's dead letters: look at them, put them back, throw them away."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.bootstrap import client_settings
from headrace.cli.addresses import BadArgument
from headrace.cli.consume_output import text_or_base64
from headrace.cli.output import Format, OutputFormat, format_time, note, print_json, print_table
from headrace.cli.settings import Bootstrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.queue.dead_letters import DeadLetters
    from headrace.queue.letters import DeadLetter

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    subcommand_metavar="list | show | redrive | purge",
)

LIST_MAX = 100
"""What fits on a few screens; --all lists the rest."""

TEXT_CHARACTERS_MAX = 60
"""Of a reason or a value, in a table."""

Match = Annotated[
    str | None,
    typer.Option(
        "--match", metavar="REGEX", help="Only letters with this in reason, original topic, key or value."
    ),
]


@app.callback()
def dead(
    context: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")],
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="The dead-letter topic. Default: the group's setting, else dlq.GROUP."),
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Dead letters of a group: messages that were rejected, or delivered too often.

    \b
    headrace queue dead senders list
    headrace queue dead senders show 0:12
    headrace queue dead senders redrive --match 'no such mailbox'
    headrace queue dead senders purge --yes
    """
    context.obj = (group, topic, bootstrap)


@app.command("list")
def list_letters(
    context: typer.Context,
    match: Match = None,
    everything: Annotated[bool, typer.Option("--all", help=f"Not only the first {LIST_MAX}.")] = False,
    format: Format = OutputFormat.TEXT,
) -> None:
    """List the letters that nobody has put back yet."""
    from headrace.queue.dead_letters import NoDeadLetters

    letters = _letters(context)
    wanted = _wanted(match)
    found = (letter for letter in letters.read() if wanted(letter))
    try:
        listed = list(found if everything else islice(found, LIST_MAX + 1))
    except NoDeadLetters:
        listed = []  # the topic comes with the first one
    shown = listed if everything else listed[:LIST_MAX]
    if format is OutputFormat.JSON:
        print_json([_as_json(letter) for letter in shown])
    elif not shown:
        typer.echo(f"no dead letters of group {letters.group} in {letters.topic}")
    else:
        columns = ("letter", "died", "was", "deliveries", "redriven", "reason", "value")
        print_table(columns, [_row(letter) for letter in shown])
    if len(listed) > len(shown):
        note(f"and more: --all lists everything, --match picks ({letters.count()} letters in all)")


@app.command()
def show(
    context: typer.Context,
    letter: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="Which one, as `list` has it.")],
    format: Format = OutputFormat.TEXT,
) -> None:
    """Show all of one letter."""
    partition, _, offset = letter.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise BadArgument(f"{letter!r} is no letter", hint="write PARTITION:OFFSET, as `list` shows it")
    found = _letters(context).get(int(partition), int(offset))
    if format is OutputFormat.JSON:
        print_json(_as_json(found))
        return
    lines = {
        "reason": found.reason,
        "was": found.original or "-",
        "group": found.group or "-",
        "died": format_time(found.timestamp_ms),
        "deliveries": found.delivery_count,
        "redriven": found.redrive_count,
        "key": "-" if found.key is None else _text(found.key),
        **{f"header {name}": "-" if content is None else _text(content) for name, content in found.headers},
    }
    for name, content in lines.items():
        typer.echo(f"{name + ':':<12} {content}")
    typer.echo()
    typer.echo("(no value)" if found.value is None else _text(found.value))


@app.command()
def redrive(
    context: typer.Context,
    match: Match = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")] = False,
) -> None:
    """Put letters back to the topics that they came from, at the end: key, value, headers, and a count of it.

    Nothing gets lost if this is interrupted; the letters since the last commit (at most 500) may then be put back
    twice. Letters that do not match stay, and are written anew at the end of the dead-letter topic.
    """
    letters = _letters(context)
    wanted = _wanted(match)
    if dry_run:
        count = sum(1 for letter in letters.read() if letter.original and wanted(letter))
        typer.echo(f"{count} letters would be put back (--dry-run)")
        return
    with _progress(letters.count()) as on_progress:
        done = letters.redrive(wanted, on_progress=on_progress)
    left = f", {done.left} left" if done.left else ""
    typer.echo(f"put back {done.put_back} letters{left}")


@app.command()
def purge(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. There is no way back.")] = False,
) -> None:
    """Delete the group's dead letters for good, those that were put back already too."""
    letters = _letters(context)
    if not yes:
        raise BadArgument(
            f"{letters.count()} letters in {letters.topic} would be gone for good",
            hint="add --yes to delete them",
        )
    typer.echo(f"purged {letters.topic}: {letters.purge()} records are gone")


def _letters(context: typer.Context) -> DeadLetters:
    from headrace.cli.cluster import Cluster
    from headrace.queue.dead_letters import DeadLetters

    group, topic, bootstrap = context.obj
    cluster = Cluster(client_settings(bootstrap))
    return DeadLetters(group, bootstrap=cluster.settings.bootstrap, topic=topic, timeout_s=cluster.timeout_s)


def _wanted(match: str | None) -> Callable[[DeadLetter], bool]:
    from headrace.queue.dead_letters import matching

    return (lambda letter: True) if match is None else matching(match)


def _row(letter: DeadLetter) -> tuple[object, ...]:
    return (
        f"{letter.place.partition}:{letter.place.offset}",
        format_time(letter.timestamp_ms),
        letter.original,
        letter.delivery_count,
        letter.redrive_count,
        _short(letter.reason),
        None if letter.value is None else _short(_text(letter.value)),
    )


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "partition": letter.place.partition,
        "offset": letter.place.offset,
        "died": format_time(letter.timestamp_ms),
        "original": None if letter.original is None else letter.original._asdict(),
        "group": letter.group,
        "delivery_count": letter.delivery_count,
        "redrive_count": letter.redrive_count,
        "reason": letter.reason,
        **text_or_base64("key", letter.key),
        **text_or_base64("value", letter.value),
        "headers": [{"name": name, **text_or_base64("value", content)} for name, content in letter.headers],
    }


def _text(content: bytes) -> str:
    return content.decode(errors="backslashreplace")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARACTERS_MAX else line[: TEXT_CHARACTERS_MAX - 1] + "…"


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("putting back", total=total)
        yield lambda count: bar.update(task, completed=count)
