"""Names of topics and groups, for a shell that completes a command.

The broker has a second to respond. If it does not, the shell shows no names: never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

from headrace.cli.command import connect
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

TIMEOUT_S = 1


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, lambda cluster: cluster.topics())


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, lambda cluster: [name for name, _ in cluster.groups()])


def _complete(
    context: typer.Context, incomplete: str, names_of: Callable[[Cluster], Iterable[str]]
) -> list[str]:
    try:
        names = names_of(connect(context.params.get("bootstrap"), timeout_s_max=TIMEOUT_S))
    except HeadraceError:
        return []
    # Internal names start with two underscores: they are listed once an underscore is typed.
    return sorted(
        each
        for each in names
        if each.startswith(incomplete) and (incomplete.startswith("_") or not each.startswith("__"))
    )
