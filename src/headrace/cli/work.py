"""`headrace work`: a pool of workers from the shell, one command per message."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.bootstrap import client_settings
from headrace.cli.addresses import BadArgument
from headrace.cli.moments import parse_duration_ms
from headrace.cli.output import note
from headrace.cli.settings import Bootstrap

if TYPE_CHECKING:
    from headrace.cli.work_pool import WorkPool

app = typer.Typer(add_completion=False, rich_markup_mode=None)

LOCK_SHARE_MAX = 0.9
"""A command may take so much of a message's lock by default: what is released in time is not worked on twice."""

LOOK_S = 0.1
"""How often the pool is looked at, for the progress line and for the end."""


@app.command()
def work(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC -- COMMAND [ARGUMENT]...", help="What to read, and what to run for each message."
        ),
    ],
    group: Annotated[str, typer.Option("--group", "-g", help="Workers of one group share the messages.")],
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", min=1, max=256, help="How many commands run at a time.")
    ] = 1,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="REGEX", help="Instead of TOPIC: all topics that match, new ones too."
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit",
            metavar="TIME",
            help="A command that takes longer is ended, and its message released. "
            "Default: nine tenths of the group's lock time.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many messages.")
    ] = None,
    stop_when_idle: Annotated[
        str | None,
        typer.Option("--stop-when-idle", metavar="TIME", help="Stop when nothing has come for so long."),
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Run a command for each message of a queue: its value is on standard input, the rest in the environment.

    Exit code 0 accepts the message. 75 releases it: somebody gets it again. Any other rejects it, with the last line
    of standard error as the reason; rejected messages are dead letters (`headrace queue dead`). A command that is
    ended by a signal or by the time limit has its message released.

    HEADRACE_TOPIC, _PARTITION, _OFFSET, _KEY, _TIMESTAMP_MS, _DELIVERY_COUNT and _GROUP say which message it is;
    HEADRACE_HEADER_X is its header x.

    Ctrl-C lets running commands finish and gives the rest back; a second one ends them and releases their messages.

    \b
    headrace work emails --group senders --concurrency 8 -- ./send-one.sh
    headrace work --pattern 'orders\\..*' --group billing -- python bill.py
    headrace work emails --group senders --stop-when-idle 5s -- ./send-one.sh
    """
    topics = [] if pattern is not None else arguments[:1]
    command = arguments[len(topics) :]
    if not command:
        raise typer.BadParameter("say what to run: headrace work TOPIC --group G -- COMMAND")
    if shutil.which(command[0]) is None:
        raise BadArgument(
            f"there is no command {command[0]}",
            hint="is it executable, and written with its folder (./run.sh)?",
        )
    time_limit_s = None if time_limit is None else parse_duration_ms(time_limit) / 1000
    idle_s = None if stop_when_idle is None else parse_duration_ms(stop_when_idle) / 1000

    from headrace.cli.cluster import Cluster
    from headrace.cli.work_pool import WorkPool
    from headrace.queue import Queue

    cluster = Cluster(client_settings(bootstrap))
    for topic in topics:
        cluster.partitions(topic)
    queue = Queue(
        *topics,
        group=group,
        bootstrap=cluster.settings.bootstrap,
        pattern=pattern,
        # One message per member: a slow command keeps nothing locked but its own message.
        prefetch=1,
        members=concurrency,
        timeout_s=cluster.timeout_s,
    )
    with queue:
        pool = WorkPool(
            queue,
            command,
            concurrency=concurrency,
            time_limit_s=time_limit_s or queue.lock_s * LOCK_SHARE_MAX,
            count_max=count,
            idle_s_max=idle_s,
        )
        note(f"headrace: {concurrency} at a time from {pattern or topics[0]} as {group}; Ctrl-C stops")
        _run(pool)
    note(pool.summary())
    if queue.lost:
        note(f"headrace: {queue.lost} answers came too late; those messages are delivered again")
    if pool.failure is not None:
        raise pool.failure


def _run(pool: WorkPool) -> None:
    """Until the pool is done; Ctrl-C and a service manager's stop let it finish what it has."""
    signals_seen = 0

    def on_signal(_number: int, _frame: object) -> None:
        nonlocal signals_seen
        signals_seen += 1
        if signals_seen == 1:
            pool.stop()
        else:
            pool.end_commands()

    old = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
    started_s = time.monotonic()
    pool.start()
    try:
        with _progress(pool):
            pool.join(LOOK_S)
    finally:
        pool.elapsed_s = time.monotonic() - started_s
        for each, handler in old.items():
            signal.signal(each, handler)


@contextmanager
def _progress(pool: WorkPool) -> Iterator[None]:
    """A line that tells how it goes, if somebody is there to read it."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(pool.progress()) as status:
        pool.on_look = lambda: status.update(pool.progress())
        yield
