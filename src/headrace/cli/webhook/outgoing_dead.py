"""`headrace webhook out dead`: list, show, redrive, discard and purge the dead letters of a webhook."""

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
    "Dead letters of a webhook, records that could not be delivered: list, show, redrive, discard, purge."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The webhook's name.")]


@app.command("list")
def list_dead(
    name: Name,
    match: Match = None,
    everything: All = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """List the letters that were neither redriven nor discarded yet.

    \b
    headrace webhook out dead list big-orders
    headrace webhook out dead list big-orders --match 'HTTP 422' --format json
    """
    list_letters(_letters(name, bootstrap), match, everything=everything, format=format)


@app.command("show")
def show_dead(name: Name, letter: Letter, format: Format = "text", bootstrap: Bootstrap = None) -> None:
    """Show all of one letter.

    \b
    headrace webhook out dead show big-orders 0:12
    """
    show_letter(_letters(name, bootstrap), letter, format)


@app.command()
def redrive(
    name: Name,
    match: Match = None,
    dry_run: DryRun = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Send records again: they are written to the end of their topic, and keep the id that the receiver knows.

    Other webhooks of the topic skip them; all other readers of the topic get them again.

    \b
    headrace webhook out dead redrive big-orders
    headrace webhook out dead redrive big-orders --match 'HTTP 422' --dry-run
    """
    redrive_letters(_letters(name, bootstrap), match, dry_run=dry_run, format=format)


@app.command()
def discard(
    name: Name,
    match: Match = None,
    yes: Yes = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Remove letters from the list without redriving them. They stay in the topic until it is purged.

    \b
    headrace webhook out dead discard big-orders --match 'HTTP 422' --yes
    """
    discard_letters(_letters(name, bootstrap), match, yes=yes, format=format)


@app.command()
def purge(name: Name, yes: Yes = False, format: Format = "text", bootstrap: Bootstrap = None) -> None:
    """Delete the dead letters of the webhook, also those that were redriven or discarded.

    \b
    headrace webhook out dead purge big-orders --yes
    """
    purge_letters(_letters(name, bootstrap), yes=yes, format=format)


def _letters(name: str, bootstrap: str | None) -> DeadLetters:
    from headrace.queue.dead_letters import DeadLetters
    from headrace.webhooks.catalog import check_name
    from headrace.webhooks.outgoing.target import GROUP_PREFIX

    check_name(name)
    cluster = connect(bootstrap)
    return DeadLetters(GROUP_PREFIX + name, bootstrap=cluster.bootstrap, timeout_s=cluster.timeout_s)
