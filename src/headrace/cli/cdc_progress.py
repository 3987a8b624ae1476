"""The progress of snapshots while captures run: bars on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.cli.output import note

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from headrace.cdc.source import SnapshotProgress

LINE_S = 10.0
"""between two lines of a table, in output that is not a terminal"""


class SnapshotScreen:
    """On standard error. A table has a bar from its first row until its snapshot is done."""

    def __init__(self, *, is_terminal: bool | None = None) -> None:
        self._is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
        self._bars: Progress | None = None
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._noted: dict[tuple[str, str], tuple[float, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def update(self, snapshots: Mapping[str, Sequence[SnapshotProgress]]) -> None:
        for capture, tables in snapshots.items():
            for table in tables:
                if self._is_terminal:
                    self._show_bar(capture, table)
                else:
                    self._note(capture, table)

    def _show_bar(self, capture: str, table: SnapshotProgress) -> None:
        place = capture, table.table
        if place not in self._tasks:
            if table.is_done or not table.rows_read:
                return
            self._tasks[place] = self._progress().add_task(f"{capture}: {table.table}", total=None)
        # The total is an estimate, which the rows may exceed.
        total = None if table.rows_total is None else max(table.rows_total, table.rows_read)
        self._progress().update(
            self._tasks[place], completed=table.rows_read, total=table.rows_read if table.is_done else total
        )

    def _progress(self) -> Progress:
        if self._bars is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bars.start()
        return self._bars

    def _note(self, capture: str, table: SnapshotProgress) -> None:
        place = capture, table.table
        if table.is_done:
            self._noted.pop(place, None)
            return
        now_s = time.monotonic()
        noted_s, rows = self._noted.setdefault(place, (now_s, table.rows_read))
        if now_s - noted_s >= LINE_S and table.rows_read > rows:
            total = "" if table.rows_total is None else f" of about {table.rows_total:,}"
            note(f"capture {capture}: {table.table}: {table.rows_read:,}{total} rows read")
            self._noted[place] = now_s, table.rows_read
