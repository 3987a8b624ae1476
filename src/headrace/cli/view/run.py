"""Running views for `headrace view run`, and showing them until they end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import typer

from headrace.cli.output import format_time, note, plain_text
from headrace.cli.stopping import Stopping
from headrace.printable import printable
from headrace.views.catalog import ViewState, ViewStatus
from headrace.views.errors import BadView

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.kafka.cluster import Cluster
    from headrace.views.catalog import Views

POLL_EVERY_S = 0.2

Show = Callable[[Sequence[ViewStatus]], None]


def run_until_stopped(views: Views, names: Sequence[str], cluster: Cluster, *, once: bool) -> None:
    chosen = list(dict.fromkeys(names)) or views.names()
    if not chosen:
        raise BadView("there are no views", hint="`headrace view create` creates one")
    folders = [views.folder(name) for name in chosen]
    from headrace.pipeline import session
    from headrace.pipeline.launch import Launch
    from headrace.pipeline.run.launched import launching
    from headrace.views.runner import ViewRun, run_views

    with (
        Stopping() as stopping,
        launching(Launch(bootstrap=cluster.bootstrap, data_dir=views.data_dir)),
        screen(chosen) as show,
    ):
        spark = session("views")
        runs = [ViewRun(folder, spark, cluster, once=once) for folder in folders]
        run_views(
            runs, is_stopping=lambda: stopping.is_wanted, show=show, pause=lambda: time.sleep(POLL_EVERY_S)
        )
    for run in runs:
        if run.failure is None:
            note(f"view {run.name}: {run.status.rows_in:,} records")
        else:
            note(f"view {run.name} failed: {run.status.error}")
    failed = [run.failure for run in runs if run.failure is not None]
    if failed:
        raise failed[0]
    if stopping.is_wanted:
        raise typer.Exit(stopping.exit_code)


def screen(names: Sequence[str]) -> AbstractContextManager[Show]:
    return table(names) if sys.stdout.isatty() else nullcontext(StateLines(names).show)


@contextmanager
def table(names: Sequence[str]) -> Iterator[Show]:
    """All views, redrawn in place."""
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        yield lambda statuses: live.update(render(names, statuses), refresh=True)


def render(names: Sequence[str], statuses: Sequence[ViewStatus]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in ("view", "version", "state", "records", "records/s", "lag", "since"):
        is_number = column in ("version", "records", "records/s", "lag")
        table.add_column(column, justify="right" if is_number else "left")
    for name, status in zip(names, statuses, strict=True):
        table.add_row(
            plain_text(name),
            "-" if status.version is None else str(status.version),
            plain_text(f"{status.state.value} {status.error}".rstrip()),
            f"{status.rows_in:,}",
            f"{status.rows_per_s:,.0f}",
            "-" if status.lag is None else f"{status.lag:,}",
            format_time(status.since_ms) if status.since_ms else "-",
        )
    return table


class StateLines:
    """Without a terminal: a line for every view whose state has changed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._states: dict[str, ViewState] = {}

    def show(self, statuses: Sequence[ViewStatus]) -> None:
        for name, status in zip(self._names, statuses, strict=True):
            if self._states.get(name, ViewState.NEW) is not status.state:
                self._states[name] = status.state
                words = [status.state.value]
                if status.version is not None:
                    words.append(f"version {status.version}")
                if status.error:
                    words.append(status.error)
                print(printable(f"view {name}: {', '.join(words)}"), flush=True)
