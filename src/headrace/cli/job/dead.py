"""`headrace job dead`: list, show, redrive, discard and purge the dead letters of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.command import JobName, JobsDataDir, bootstrap_option, command_group, connect
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
from headrace.dead_letters import dead_letter_topic
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.queue.dead_letters import DeadLetters

app = command_group(
    "Dead letters of a job, records that it can't parse and rows that its sink rejects: list, show, redrive, "
    "discard, purge."
)

Topic = Annotated[
    str | None,
    typer.Option("--topic", help="The dead-letter topic. Default: that of the job, as of its last run."),
]
Bootstrap = Annotated[
    str | None,
    bootstrap_option("Broker to talk to. Default: that of the job's last run, else as for other commands."),
]


@app.command("list")
def list_dead(
    name: JobName,
    match: Match = None,
    everything: All = False,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: JobsDataDir = None,
) -> None:
    """List the letters that were neither redriven nor discarded yet.

    \b
    headrace job dead list shop-clicks
    headrace job dead list shop-clicks --match 'not JSON' --format json
    """
    list_letters(_letters(name, topic, bootstrap, data_dir), match, everything=everything, format=format)


@app.command("show")
def show_dead(
    name: JobName,
    letter: Letter,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: JobsDataDir = None,
) -> None:
    """Show all of one letter.

    \b
    headrace job dead show shop-clicks 0:12
    """
    show_letter(_letters(name, topic, bootstrap, data_dir), letter, format)


@app.command()
def redrive(
    name: JobName,
    match: Match = None,
    dry_run: DryRun = False,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: JobsDataDir = None,
) -> None:
    """Write letters to the end of their original topics again, with key, value, headers and a count of redrives.

    Every job that reads the topic gets the record, so it is redriven once, also if several jobs have a letter of it.
    Rows that a sink rejected, late rows and truncated values can't be redriven. If this is interrupted, no letter is
    lost; those since the last commit (at most 500) may be redriven twice. Letters that do not match are written again
    to the end of the dead-letter topic.

    \b
    headrace job dead redrive shop-clicks
    headrace job dead redrive shop-clicks --match 'not JSON' --dry-run
    """
    redrive_letters(_letters(name, topic, bootstrap, data_dir), match, dry_run=dry_run, format=format)


@app.command()
def discard(
    name: JobName,
    match: Match = None,
    yes: Yes = False,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: JobsDataDir = None,
) -> None:
    """Remove letters from the list without redriving them. They stay in the topic until it is purged.

    \b
    headrace job dead discard shop-clicks --match 'not JSON' --yes
    """
    discard_letters(_letters(name, topic, bootstrap, data_dir), match, yes=yes, format=format)


@app.command()
def purge(
    name: JobName,
    yes: Yes = False,
    topic: Topic = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: JobsDataDir = None,
) -> None:
    """Delete the job's dead letters, also those that were redriven or discarded.

    \b
    headrace job dead purge shop-clicks --yes
    """
    purge_letters(_letters(name, topic, bootstrap, data_dir), yes=yes, format=format)


def _letters(name: str, topic: str | None, bootstrap: str | None, data_dir: str | None) -> DeadLetters:
    from headrace.pipeline.report.registry import Registry
    from headrace.pipeline.settings import pipeline_settings
    from headrace.queue.dead_letters import DeadLetters

    # A job of another machine has no folder here: its letters are found by its name.
    status = Registry(pipeline_settings(data_dir=data_dir).data_dir).folder(name).read()
    cluster = connect(bootstrap or (status.bootstrap if status is not None else None) or None)
    if topic is None:
        known = status.dead_letter_topics if status is not None else ()
        existing = [each for each in known if each in cluster.topics()]
        if len(existing) > 1:
            raise HeadraceError(
                f"job {name} has dead letters in {' and '.join(existing)}",
                hint=f"choose one: --topic {existing[0]}",
            )
        topic = next(iter(existing or known), dead_letter_topic(name))
    return DeadLetters(name, bootstrap=cluster.bootstrap, topic=topic, timeout_s=cluster.timeout_s)
