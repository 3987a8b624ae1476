"""The `headrace` command: its command groups, and how errors become messages and exit codes.

Only the table of names is read at the start; a group's module is imported when it is called.
`headrace broker` has to be ready within a fraction of a second and imports nothing that it does not use.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped with Ctrl-C, 143 stopped with SIGTERM.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from headrace.cli.lazy_group import LazyGroup
from headrace.errors import HeadraceError
from headrace.printable import printable_lines

# The module of each command, in the order in which a new user needs them.
COMMANDS = {
    "run": "headrace.cli.demo.run",
    "broker": "headrace.cli.broker.commands",
    "topic": "headrace.cli.topic",
    "produce": "headrace.cli.records.produce",
    "consume": "headrace.cli.records.consume",
    "group": "headrace.cli.group",
    "work": "headrace.cli.queue.work",
    "queue": "headrace.cli.queue.commands",
    "job": "headrace.cli.job.commands",
    "ask": "headrace.cli.ask",
    "cdc": "headrace.cli.cdc",
    "edge": "headrace.cli.edge.commands",
    "view": "headrace.cli.view.commands",
    "gateway": "headrace.cli.gateway",
    "webhook": "headrace.cli.webhook.commands",
    "alert": "headrace.cli.alert.commands",
    "catalog": "headrace.cli.catalog",
    "erase": "headrace.cli.erase.commands",
    "top": "headrace.cli.top.commands",
    "log": "headrace.cli.log",
}

EXIT_FAILED = 1
EXIT_STOPPED = 130
EXIT_TERMINATED = 143


class Commands(LazyGroup):
    modules = COMMANDS


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def headrace(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Event streams in one install: a Kafka-compatible log, and the tools to work with it.

    \b
    headrace run                                   see it work
    headrace broker --data-dir ./data              start a broker at 127.0.0.1:9092
    headrace produce clicks                        write lines from the keyboard
    headrace consume clicks --from-beginning       read them back
    """


def main() -> None:
    """The console script."""
    # By default SIGTERM skips every `finally`: nothing would be committed, flushed or closed.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(EXIT_TERMINATED))
    try:
        app(prog_name="headrace")
    except HeadraceError as error:
        sys.stdout.flush()
        print(f"headrace: {printable_lines(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {printable_lines(error.hint)}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_STOPPED)
