"""The rows of an event to dicts by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.cdc.errors import BadCapture
from headrace.cdc.mysql.binlog import Rows
from headrace.cdc.mysql.values import Reader

RowPair = tuple[dict[str, Any] | None, dict[str, Any] | None]
"""before and after"""


def read_rows(event: Rows, names: Sequence[str], readers: Sequence[Reader], table: str) -> Iterator[RowPair]:
    """Raises `BadCapture` if the event has not all columns of the row."""
    count = len(names)
    size = (event.columns + 7) // 8
    data, at = event.content, event.at
    images = 2 if event.op == "u" else 1
    for _ in range(images):
        if event.columns != count or int.from_bytes(data[at : at + size], "little") != (1 << count) - 1:
            raise BadCapture(
                f"a change of table {table} has not all columns of its row",
                hint="SET GLOBAL binlog_row_image = FULL, and let all programs connect again; then"
                " `headrace cdc remove` and `add` the capture, which starts with a new snapshot",
            )
        at += size
    columns = list(enumerate(zip(names, readers, strict=True)))

    def image(at: int) -> tuple[dict[str, Any], int]:
        nulls = int.from_bytes(data[at : at + size], "little")
        at += size
        row: dict[str, Any] = {}
        for number, (name, read) in columns:
            if nulls >> number & 1:
                row[name] = None
            else:
                row[name], at = read(data, at)
        return row, at

    while at < len(data):
        first, at = image(at)
        if event.op == "c":
            yield None, first
        elif event.op == "d":
            yield first, None
        else:
            second, at = image(at)
            yield first, second
