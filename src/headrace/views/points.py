"""The points of a rebuild at which a test can kill the process. Nothing hooks in otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Point = Literal[
    "version-recorded",
    "version-built",
    "old-drained",
    "compared",
    "journal-written",
    "store-switched",
    "record-written",
    "journal-deleted",
    "old-dropped",
]

hooks: list[Callable[[Point], None]] = []


def reached(point: Point) -> None:
    for hook in hooks:
        hook(point)
