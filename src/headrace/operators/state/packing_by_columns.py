"""Rows that are packed in the same step in which their source is read by columns: who does that.

The core does not read sources. The package that does puts its function here when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Pack = Callable[[pa.Table], pa.RecordBatch | None]
"""From rows to their packed form; None for no row."""

PackByColumns = Callable[["DataFrame", Pack, pa.Schema, int], "DataFrame | None"]
"""From rows, how they are packed, the schema of the packed rows, and how many rows are packed together, to the packed
rows; None if Spark has to read the source."""

_functions: list[PackByColumns] = []


def set_function(function: PackByColumns) -> None:
    _functions[:] = [function]


def packed_by_columns(rows: DataFrame, pack: Pack, packed: pa.Schema, rows_max: int) -> DataFrame | None:
    return _functions[0](rows, pack, packed, rows_max) if _functions else None
