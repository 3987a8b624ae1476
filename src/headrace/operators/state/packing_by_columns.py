"""Rows that are packed in the same step in which their source is read by columns: who does that.

The core does not read sources. The package that does puts its function here when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Packer(Protocol):
    """Packs rows, in a task: it is picklable."""

    packed: pa.Schema
    rows_max: int
    """About how many rows are packed together."""

    def pack(self, rows: pa.Table) -> pa.RecordBatch | None:
        """The rows in their packed form; None for no row."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The packed form of all rows of a task."""


PackByColumns = Callable[["DataFrame", Packer], "DataFrame | None"]
"""From rows to the packed rows; None if Spark has to read the source."""

_functions: list[PackByColumns] = []


def set_function(function: PackByColumns) -> None:
    _functions[:] = [function]


def packed_by_columns(rows: DataFrame, packer: Packer) -> DataFrame | None:
    return _functions[0](rows, packer) if _functions else None
