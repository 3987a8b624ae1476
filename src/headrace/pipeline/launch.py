"""How a script with jobs was launched: directly, or by `headrace job run` with options that override the script.

`session`, `read_topic` and `Job.start` read the options here. This module does not import Spark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct


class Launch(Struct, frozen=True, kw_only=True):
    """Options of a launch. With None and False, the script's own setting applies.

    once       every job processes the records that exist and ends; a job that reads another's output runs after it
    explain    jobs are declared and not started
    rebuild    every job clears its target, deletes its checkpoint and replays from the start
    """

    once: bool = False
    explain: bool = False
    rebuild: bool = False
    bootstrap: str | None = None
    registry: str | None = None
    master: str | None = None
    data_dir: str | Path | None = None


_current = Launch()


def current() -> Launch:
    return _current


@contextlib.contextmanager
def using(launch: Launch) -> Iterator[None]:
    """Everything inside, in any thread, runs with these options."""
    global _current
    before, _current = _current, launch
    try:
        yield
    finally:
        _current = before
