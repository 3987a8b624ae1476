"""`headrace queue dead`: list, show, redrive and purge the dead letters of a group."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import asdict

from headrace.cli.addresses import BadArgument
from headrace.cli.connecting import connect
from headrace.cli.output import Format, OutputFormat, Shape, format_time, note, print_table, result, show
from headrace.cli.records.consume_output import JsonHeader, text_or_base64
from headrace.cli.settings import Bootstrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.queue.dead_letters import DeadLetters
    from headrace.queue.letters import DeadLetter

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Dead letters of a group, messages that were rejected or delivered too often: list, show, redrive, purge.",
)

LIST_MAX = 100
"""A few screens; --all lists all."""

TEXT_CHARACTERS_MAX = 60
"""Of a reason or a value, in a table."""

Match = Annotated[
    str | None,
    typer.Option(
        "--match", metavar="REGEX", help="Only letters whose reason, original topic, key or value matches."
    ),
]


Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]
Topic = Annotated[
    str | None,
    typer.Option("--topic", help="The dead-letter topic. Default: the group's setting, else dlq.GROUP."),
]


class LetterOrigin(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int


@result("queue dead list", shape=Shape.LIST)
@result("queue dead show")
class JsonLetter(Struct, frozen=True, kw_only=True):
    partition: Annotated[int, "of the dead-letter topic"]
    offset: int
    died: Annotated[str, "ISO 8601 in UTC"]
    original: Annotated[LetterOrigin | None, "the original record; null: unknown"]
    group: Annotated[str, "the group that rejected it"]
    delivery_count: int
    redrive_count: Annotated[int, "how often it was redriven before"]
    reason: str
    headers: list[JsonHeader]
    key: Annotated[str | None, "null: none"] = None
    key_base64: Annotated[str | None, "instead of the key, if it is not UTF-8"] = None
    value: Annotated[str | None, "null: none"] = None
    value_base64: Annotated[str | None, "instead of the value, if it is not UTF-8"] = None


@result("queue dead redrive")
class RedrivenLetters(Struct, frozen=True, kw_only=True):
    group: str
    redriven: Annotated[int, "letters; with --dry-run, those that would be"]
    left: Annotated[int | None, "letters that do not match; null with --dry-run"]


@result("queue dead purge")
class PurgedLetters(Struct, frozen=True, kw_only=True):
    group: str
    topic: str
    records: Annotated[int, "that were deleted"]


@app.command("list")
def list_letters(
    group: Group,
    match: Match = None,
    everything: Annotated[bool, typer.Option("--all", help=f"Not only the first {LIST_MAX}.")] = False,
    topic: Topic = None,
    format: Format = OutputFormat.TEXT,
    bootstrap: Bootstrap = None,
) -> None:
    """List the letters that were not redriven yet.

    \b
    headrace queue dead list senders
    headrace queue dead list senders --match 'no such mailbox' --format json
    """
    from headrace.queue.dead_letters import NoDeadLetters

    letters = _letters(group, topic, bootstrap)
    wanted = _wanted(match)
    found = (letter for letter in letters.read() if wanted(letter))
    try:
        listed = list(found if everything else islice(found, LIST_MAX + 1))
    except NoDeadLetters:
        listed = []  # the topic is created with the first letter
    shown = listed if everything else listed[:LIST_MAX]
    show([_as_json(letter) for letter in shown], format, lambda: _print_letters(letters, shown))
    if len(listed) > len(shown):
        note(f"and more: --all lists all, --match selects ({letters.count()} letters in all)")


def _print_letters(letters: DeadLetters, shown: Sequence[DeadLetter]) -> None:
    if not shown:
        typer.echo(f"no dead letters of group {letters.group} in {letters.topic}")
        return
    columns = ("letter", "died", "was", "deliveries", "redriven", "reason", "value")
    print_table(columns, [_row(letter) for letter in shown])


@app.command("show")
def show_letter(
    group: Group,
    letter: Annotated[
        str, typer.Argument(metavar="PARTITION:OFFSET", help="The letter, as `list` shows it.")
    ],
    topic: Topic = None,
    format: Format = OutputFormat.TEXT,
    bootstrap: Bootstrap = None,
) -> None:
    """Show all of one letter.

    \b
    headrace queue dead show senders 0:12
    """
    partition, _, offset = letter.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise BadArgument(f"{letter!r} is not a letter", hint="write PARTITION:OFFSET, as `list` shows it")
    found = _letters(group, topic, bootstrap).get(int(partition), int(offset))
    show(_as_json(found), format, lambda: _print_letter(found))


def _print_letter(found: DeadLetter) -> None:
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
    group: Group,
    match: Match = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report how many it would be.")] = False,
    topic: Topic = None,
    format: Format = OutputFormat.TEXT,
    bootstrap: Bootstrap = None,
) -> None:
    """Write letters to the end of their original topics again, with key, value, headers and a count of redrives.

    If this is interrupted, no letter is lost; those since the last commit (at most 500) may be redriven twice.
    Letters that do not match are written again to the end of the dead-letter topic.

    \b
    headrace queue dead redrive senders
    headrace queue dead redrive senders --match 'no such mailbox' --dry-run
    """
    letters = _letters(group, topic, bootstrap)
    wanted = _wanted(match)
    if dry_run:
        count = sum(1 for letter in letters.read() if letter.original and wanted(letter))
        planned = RedrivenLetters(group=group, redriven=count, left=None)
        show(planned, format, f"{count} letters would be redriven (--dry-run)")
        return
    with _progress(letters.count()) as on_progress:
        done = letters.redrive(wanted, on_progress=on_progress)
    left = f", {done.left} left" if done.left else ""
    redriven = RedrivenLetters(group=group, redriven=done.redriven, left=done.left)
    show(redriven, format, f"redrove {done.redriven} letters{left}")


@app.command()
def purge(
    group: Group,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: it cannot be undone.")] = False,
    topic: Topic = None,
    format: Format = OutputFormat.TEXT,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete the group's dead letters, also those that were redriven.

    \b
    headrace queue dead purge senders --yes
    """
    letters = _letters(group, topic, bootstrap)
    if not yes:
        raise BadArgument(
            f"{letters.count()} letters in {letters.topic} would be deleted",
            hint="add --yes to delete them",
        )
    purged = PurgedLetters(group=group, topic=letters.topic, records=letters.purge())
    show(purged, format, f"purged {purged.topic}: {purged.records} records deleted")


def _letters(group: str, topic: str | None, bootstrap: str | None) -> DeadLetters:
    from headrace.queue.dead_letters import DeadLetters

    cluster = connect(bootstrap)
    return DeadLetters(group, bootstrap=cluster.bootstrap, topic=topic, timeout_s=cluster.timeout_s)


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
        "original": None if letter.original is None else asdict(letter.original),
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
        task = bar.add_task("redriving", total=total)
        yield lambda count: bar.update(task, completed=count)
