"""`headrace work`: a pool of workers from the shell, one command per message."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.command import Bootstrap, command_app
from headrace.cli.output import note
from headrace.durations import parse_duration_ms
from headrace.errors import HeadraceError
from headrace.kafka.settings import client_settings

if TYPE_CHECKING:
    from headrace.cli.queue.work_command import Commands

app = command_app()

LOCK_SHARE_MAX = 0.9
"""The default time limit of a command, as a share of the lock timeout: a message that is released before that is not
processed twice."""


@app.command()
def work(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC -- COMMAND [ARGUMENT]...",
            help="The topic to read, and the command to run for each message.",
        ),
    ],
    group: Annotated[str, typer.Option("--group", "-g", help="Workers of one group share the messages.")],
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", min=1, max=256, help="How many commands run at a time.")
    ] = 1,
    pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Instead of TOPIC: all topics that match, new ones too."),
    ] = None,
    ordered: Annotated[
        bool,
        typer.Option("--ordered", help="Messages of a key in order, one at a time. Makes the group ordered."),
    ] = False,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="A command that takes longer is killed, and its message released. "
            "Default: nine tenths of the group's lock timeout.",
        ),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after N messages.")] = None,
    stop_when_idle: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop when no message was delivered for this time.")
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Run a command for each message of a queue: its value is on standard input, the rest in the environment.

    Exit code 0 accepts the message. 75 releases it: it is redelivered. Any other rejects it, with the last line
    of standard error as the reason; rejected messages are dead letters (`headrace queue dead`). The message of
    a command that is ended by a signal or by the time limit is released. Standard output is the reply to a request
    (`headrace queue request`).

    HEADRACE_TOPIC, _PARTITION, _OFFSET, _KEY, _TIMESTAMP_MS, _DELIVERY_COUNT and _GROUP identify the message;
    HEADRACE_HEADER_X is its header x.

    After Ctrl-C, running commands finish and the other messages are released; a second one ends the commands too.

    \b
    headrace work emails --group senders --concurrency 8 -- ./send-one.sh
    headrace work orders --group packers --ordered --concurrency 8 -- ./pack.sh
    headrace work --pattern 'orders\\..*' --group billing -- python bill.py
    headrace work emails --group senders --stop-when-idle 5s -- ./send-one.sh
    """
    topics = [] if pattern is not None else arguments[:1]
    command = arguments[len(topics) :]
    if not command:
        raise typer.BadParameter("give a command: headrace work TOPIC --group G -- COMMAND")
    if shutil.which(command[0]) is None:
        raise HeadraceError(
            f"there is no command {command[0]}",
            hint="is it executable, and written with its folder (./run.sh)?",
        )
    time_limit_s = None if time_limit is None else parse_duration_ms(time_limit) / 1000
    idle_s = None if stop_when_idle is None else parse_duration_ms(stop_when_idle) / 1000

    from headrace.cli.queue.work_command import Commands
    from headrace.queue import Queue
    from headrace.queue.runner import Allowance, Runner, stopped_by_signals

    settings = client_settings(bootstrap)
    queue = Queue(
        *topics,
        group=group,
        bootstrap=settings.bootstrap,
        pattern=pattern,
        # One message per member: a slow command locks only its own message.
        prefetch=1,
        members=concurrency,
        ordered=ordered,
        timeout_s=settings.timeout_s,
    )
    with queue:
        limit_s = time_limit_s or queue.lock_s * LOCK_SHARE_MAX
        commands = Commands(command, group=group, time_limit_s=limit_s)
        allowance = Allowance(count=count, idle_s=idle_s)
        runner = Runner(
            commands.handle, take=queue.get, stop=queue.stop, concurrency=concurrency, allowance=allowance
        )
        note(f"headrace: {concurrency} at a time from {pattern or topics[0]} as {group}; Ctrl-C stops")
        steps = itertools.chain([queue.stop], itertools.repeat(commands.end))
        try:
            with stopped_by_signals(steps), _progress(commands) as show:
                runner.run(show)
        finally:
            note(commands.summary())
    if queue.lost:
        note(f"headrace: {queue.lost} acknowledgements were too late; those messages are redelivered")


@contextmanager
def _progress(commands: Commands) -> Iterator[Callable[[], None]]:
    """A line with the progress, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    with Console(stderr=True).status(commands.progress()) as status:
        yield lambda: status.update(commands.progress())
