"""Dead letters in commands: those of a group (`headrace queue dead`), of a job (`headrace job dead`) and of a webhook
(`headrace webhook out dead`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from headrace.cli.output import (
    Format,
    Shape,
    format_time,
    note,
    print_table,
    progress_bar,
    result,
    show,
)
from headrace.cli.records.consume_output import JsonHeader, json_content
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.queue.dead_letters import DeadLetters
    from headrace.queue.letters import DeadLetter

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


Letter = Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="The letter, as `list` shows it.")]
All = Annotated[bool, typer.Option("--all", help=f"Not only the first {LIST_MAX}.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report how many it would be.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm: it cannot be undone.")]


class LetterOrigin(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int


@result("queue dead list", shape=Shape.LIST)
@result("queue dead show")
@result("job dead list", shape=Shape.LIST)
@result("webhook out dead list", shape=Shape.LIST)
@result("job dead show")
@result("webhook out dead show")
class JsonLetter(Struct, frozen=True, kw_only=True):
    partition: Annotated[int, "of the dead-letter topic"]
    offset: int
    died: Annotated[str, "ISO 8601 in UTC"]
    original: Annotated[LetterOrigin | None, "the original record; null: unknown"]
    group: Annotated[str, "the group that rejected it, or the job"]
    delivery_count: Annotated[int, "0 for a job"]
    redrive_count: Annotated[int, "how often it was redriven before"]
    reason: str
    headers: list[JsonHeader]
    key: Annotated[str | None, "null: none"] = None
    key_base64: Annotated[str | None, "instead of the key, if it is not UTF-8"] = None
    value: Annotated[str | None, "null: none"] = None
    value_base64: Annotated[str | None, "instead of the value, if it is not UTF-8"] = None


@result("queue dead redrive")
@result("job dead redrive")
@result("webhook out dead redrive")
class RedrivenLetters(Struct, frozen=True, kw_only=True):
    group: Annotated[str, "or job"]
    redriven: Annotated[int, "letters; with --dry-run, those that would be"]
    left: Annotated[int | None, "letters that do not match or can't be redriven; null with --dry-run"]


@result("queue dead discard")
@result("job dead discard")
@result("webhook out dead discard")
class DiscardedLetters(Struct, frozen=True, kw_only=True):
    group: Annotated[str, "or job"]
    discarded: int
    left: Annotated[int, "letters that do not match"]


@result("queue dead purge")
@result("job dead purge")
@result("webhook out dead purge")
class PurgedLetters(Struct, frozen=True, kw_only=True):
    group: Annotated[str, "or job"]
    topic: str
    records: Annotated[int, "that were deleted"]


def list_letters(letters: DeadLetters, match: str | None, *, everything: bool, format: Format) -> None:
    from headrace.queue.dead_letters import NoDeadLetters, matching

    wanted = matching(match or "")
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
        typer.echo(f"no dead letters of {letters.group} in {letters.topic}")
        return
    columns = ("letter", "died", "was", "deliveries", "redriven", "reason", "value")
    print_table(columns, [_row(letter) for letter in shown])


def show_letter(letters: DeadLetters, letter: str, format: Format) -> None:
    partition, _, offset = letter.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise HeadraceError(f"{letter!r} is not a letter", hint="write PARTITION:OFFSET, as `list` shows it")
    found = letters.get(int(partition), int(offset))
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


def redrive_letters(letters: DeadLetters, match: str | None, *, dry_run: bool, format: Format) -> None:
    from headrace.queue.dead_letters import matching

    wanted = matching(match or "")
    if dry_run:
        chosen = [letter for letter in letters.read() if letter.can_be_redriven and wanted(letter)]
        count = len({letter.record or letter.id for letter in chosen})
        planned = RedrivenLetters(group=letters.group, redriven=count, left=None)
        show(planned, format, f"{count} letters would be redriven (--dry-run)")
        return
    with progress_bar("redriving", letters.count()) as on_progress:
        done = letters.redrive(wanted, on_progress=on_progress)
    redriven = RedrivenLetters(group=letters.group, redriven=done.redriven, left=done.left)
    show(redriven, format, f"redrove {done.redriven} letters{_left(done.left)}")


def discard_letters(letters: DeadLetters, match: str | None, *, yes: bool, format: Format) -> None:
    from headrace.queue.dead_letters import matching

    wanted = matching(match or "")
    if not yes:
        count = sum(1 for letter in letters.read() if wanted(letter))
        raise HeadraceError(f"{count} letters would be discarded", hint="add --yes to discard them")
    with progress_bar("discarding", letters.count()) as on_progress:
        done = letters.discard(wanted, on_progress=on_progress)
    discarded = DiscardedLetters(group=letters.group, discarded=done.discarded, left=done.left)
    show(discarded, format, f"discarded {done.discarded} letters{_left(done.left)}")


def purge_letters(letters: DeadLetters, *, yes: bool, format: Format) -> None:
    if not yes:
        raise HeadraceError(
            f"{letters.count()} letters in {letters.topic} would be deleted",
            hint="add --yes to delete them",
        )
    purged = PurgedLetters(group=letters.group, topic=letters.topic, records=letters.purge())
    show(purged, format, f"purged {purged.topic}: {purged.records} records deleted")


def _left(count: int) -> str:
    return f", {count} left" if count else ""


def _row(letter: DeadLetter) -> tuple[object, ...]:
    return (
        f"{letter.id.partition}:{letter.id.offset}",
        format_time(letter.timestamp_ms),
        letter.original,
        letter.delivery_count,
        letter.redrive_count,
        _short(letter.reason),
        None if letter.value is None else _short(_text(letter.value)),
    )


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "partition": letter.id.partition,
        "offset": letter.id.offset,
        "died": format_time(letter.timestamp_ms),
        "original": letter.original,
        "group": letter.group,
        "delivery_count": letter.delivery_count,
        "redrive_count": letter.redrive_count,
        "reason": letter.reason,
        **json_content(letter.key, letter.value, letter.headers),
    }


def _text(content: bytes) -> str:
    return content.decode(errors="backslashreplace")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARACTERS_MAX else line[: TEXT_CHARACTERS_MAX - 1] + "…"
