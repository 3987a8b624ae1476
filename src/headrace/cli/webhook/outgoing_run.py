"""Delivering webhooks for `headrace webhook out run`, and showing the targets until it ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import typer

from headrace.cli.output import note, plain_text
from headrace.cli.stopping import Stopping
from headrace.printable import printable
from headrace.webhooks.outgoing.state import TargetState, TargetStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.kafka.cluster import Cluster
    from headrace.webhooks.outgoing.settings import OutgoingSettings

Show = Callable[[Mapping[str, TargetStatus]], None]


def run_until_stopped(cluster: Cluster, settings: OutgoingSettings, names: Collection[str]) -> None:
    from headrace.webhooks.outgoing.parts import Parts
    from headrace.webhooks.outgoing.runner import Runner

    with Stopping() as stopping, _screen() as show:
        runner = Runner(Parts(cluster=cluster, settings=settings), names=names, show=show)
        with asyncio.Runner(loop_factory=_loop_factory()) as loop:
            loop.run(runner.run(lambda: stopping.is_wanted))
    raise typer.Exit(stopping.exit_code)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _screen() -> AbstractContextManager[Show]:
    if sys.stdout.isatty():
        return _table()
    note("delivering webhooks; Ctrl-C ends")
    return nullcontext(StateLines().show)


@contextmanager
def _table() -> Iterator[Show]:
    """All targets, redrawn in place."""
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        yield lambda statuses: live.update(render(statuses), refresh=True)


def render(statuses: Mapping[str, TargetStatus]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in ("webhook", "state", "delivered", "per s", "failed", "pending", "dead", "error"):
        is_text = column in ("webhook", "state", "error")
        table.add_column(column, justify="left" if is_text else "right")
    for name, status in sorted(statuses.items()):
        table.add_row(
            plain_text(name),
            status.state.value,
            f"{status.delivered:,}",
            f"{status.per_s:,.0f}",
            f"{status.failed:,}",
            f"{status.pending:,}",
            f"{status.dead_letters:,}",
            plain_text(status.error),
        )
    return table


class StateLines:
    """Without a terminal: a line for every target whose state has changed, and for its first dead letter."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[TargetState, str, bool]] = {}

    def show(self, statuses: Mapping[str, TargetStatus]) -> None:
        for name, status in sorted(statuses.items()):
            seen = status.state, status.error, status.dead_letters > 0
            if self._shown.get(name) == seen:
                continue
            self._shown[name] = seen
            words = [status.state.value]
            if status.error:
                words.append(status.error)
            if status.dead_letters:
                words.append(f"it has dead letters: `headrace webhook out dead list {name}`")
            print(printable(f"webhook {name}: {', '.join(words)}"), flush=True)
