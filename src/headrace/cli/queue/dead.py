"""`headrace queue dead`: list, show, redrive, discard and purge the dead letters of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.command import Bootstrap, command_group, connect
from headrace.cli.letters import (
    All,
    DryRun,
    Letter,
    Match,
    Yes,
    discard_letters,
    list_letters,
    purge_letters,
    redrive_letters,
    show_letter,
)
from headrace.cli.output import Format

if TYPE_CHECKING:
    from headrace.queue.dead_letters import DeadLetters

app = command_group(
    "Dead letters of a group, messages that were rejected or delivered too often: list, show, redrive, discard, purge."
)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]
Topic = Annotated[
    str | None,
    typer.Option("--topic", help="The dead-letter topic. Default: the group's setting, else dlq.GROUP."),
]


@app.command("list")
def list_dead(
    group: Group,
    match: Match = None,
    everything: All = False,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """List the letters that were neither redriven nor discarded yet.

    \b
    headrace queue dead list senders
    headrace queue dead list senders --match 'no such mailbox' --format json
    """
    list_letters(_letters(group, topic, bootstrap), match, everything=everything, format=format)


@app.command("show")
def show_dead(
    group: Group,
    letter: Letter,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Show all of one letter.

    \b
    headrace queue dead show senders 0:12
    """
    show_letter(_letters(group, topic, bootstrap), letter, format)


@app.command()
def redrive(
    group: Group,
    match: Match = None,
    dry_run: DryRun = False,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Write letters to the end of their original topics again, with key, value, headers and a count of redrives.

    If this is interrupted, no letter is
    lost; those since the last commit (at most 500) may be redriven twice. Letters that do not match are written again
    to the end of the dead-letter topic.

    \b
    headrace queue dead redrive senders
    headrace queue dead redrive senders --match 'no such mailbox' --dry-run
    """
    redrive_letters(_letters(group, topic, bootstrap), match, dry_run=dry_run, format=format)


@app.command()
def discard(
    group: Group,
    match: Match = None,
    yes: Yes = False,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Remove letters from the list without redriving them. They stay in the topic until it is purged.

    \b
    headrace queue dead discard senders --match 'no such mailbox' --yes
    """
    discard_letters(_letters(group, topic, bootstrap), match, yes=yes, format=format)


@app.command()
def purge(
    group: Group,
    yes: Yes = False,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Delete the group's dead letters, also those that were redriven or discarded.

    \b
    headrace queue dead purge senders --yes
    """
    purge_letters(_letters(group, topic, bootstrap), yes=yes, format=format)


def _letters(group: str, topic: str | None, bootstrap: str | None) -> DeadLetters:
    from headrace.queue.dead_letters import DeadLetters

    cluster = connect(bootstrap)
    return DeadLetters(group, bootstrap=cluster.bootstrap, topic=topic, timeout_s=cluster.timeout_s)
