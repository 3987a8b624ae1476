"""The points of a batch at which the test kit can abort or kill a job. Nothing hooks in otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Point = Literal[
    "before-write", "after-stage", "before-letters", "after-letters", "after-write", "after-commit"
]
"""`after-letters` is only reached by a sink that Spark writes natively: its dead letters follow the commit.
`after-stage` is only reached when tasks have written the rows of a batch, before the driver writes the fence."""

Hook = Callable[[Point, str], None]

hooks: list[Hook] = []


def reached(point: Point, *, job: str) -> None:
    for hook in hooks:
        hook(point, job)
