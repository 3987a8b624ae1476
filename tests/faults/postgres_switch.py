"""A switch of a view in PostgreSQL, in a process that `test_views_killed.py` lets die at one of its steps.

python -m tests.faults.postgres_switch postgresql://… 2 view-replaced
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

from headrace.testing.faults import kill_process
from headrace.views.definition import Definition
from headrace.views.stores.postgresql import PostgresViews

Step = Literal["indexes-copied", "view-replaced", "committed"]
"""Before the transaction, at its end, and after it."""

METHODS = {"indexes-copied": "_copy_indexes", "view-replaced": "_serve", "committed": "_try_switch"}


def definition(address: str) -> Definition:
    return Definition(name="users", topics=("t",), key=("id",), store="postgresql", at=address)


def killed_after(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        method(*arguments)
        kill_process()

    return call


if __name__ == "__main__":
    address, version, step = sys.argv[1:]
    assert step in get_args(Step)
    setattr(PostgresViews, METHODS[step], killed_after(getattr(PostgresViews, METHODS[step])))
    PostgresViews(definition(address), Path()).switch(int(version))
