"""The points of a notification at which a test can kill the process. Nothing hooks in otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Point = Literal["decided", "committed", "before-send", "accepted", "before-mark", "marked"]
"""`accepted`: the target has taken it. A kill from there until `marked` sends it again, with the same id."""

hooks: list[Callable[[Point], None]] = []


def reached(point: Point) -> None:
    for hook in hooks:
        hook(point)
