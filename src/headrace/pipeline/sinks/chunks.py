"""The rows of a batch for tasks that write them: in chunks, and all rows of a key in one task, first to last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.pipeline.sinks.changes import OFFSET, OP, RETRACTIONS
from headrace.pipeline.sinks.driver_rows import input_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.pipeline.fence import Fence

RANK_IN_ROWS = "__headrace_rank"
"""The column with the place that a row had in the batch."""

TASK_ROWS = 250_000
"""Of a task that has all rows of its keys: their last rows fit into its memory, unless they are long."""

TASKS_PER_CORE = 4
"""If the number of rows is unknown."""


def chunks_of(batches: Iterable[pa.RecordBatch], chunk_bytes: int) -> Iterator[pa.Table]:
    """The rows, in tables of about this size; no empty ones."""
    kept: list[pa.RecordBatch] = []
    kept_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        kept.append(batch)
        kept_bytes += batch.nbytes
        if kept_bytes >= chunk_bytes:
            yield pa.Table.from_batches(kept).combine_chunks()
            kept, kept_bytes = [], 0
    if kept:
        yield pa.Table.from_batches(kept).combine_chunks()


def by_key(batch: DataFrame, key: Sequence[str], fence: Fence) -> DataFrame:
    """All rows of a key in one task, in any order, with their ranks in the batch."""
    from pyspark.sql import functions as F

    cores = batch.sparkSession.sparkContext.defaultParallelism
    rows = input_rows(fence)
    tasks = cores * TASKS_PER_CORE if rows == float("inf") else max(cores, int(rows // TASK_ROWS))
    ranked = batch.withColumn(RANK_IN_ROWS, F.monotonically_increasing_id())
    return ranked.repartition(tasks, *map(_column, key))


def by_key_in_order(batch: DataFrame, key: Sequence[str], fence: Fence, order_by: str | None) -> DataFrame:
    """As `by_key`; the rows of a key from the first to the last, in the order of `changes.collapse`."""
    from pyspark.sql import functions as F

    kinds = dict(batch.dtypes)
    terms = []
    name = order_by or (OFFSET if OFFSET in kinds else None)
    if name is not None:
        by = _column(name)
        if kinds[name] in ("float", "double"):
            terms.append(F.when(by.isNull(), 0).when(F.isnan(by), 1).otherwise(2).asc())
        terms.append(by.asc_nulls_first())
    if kinds.get(OP) == "string":
        terms.append((~F.coalesce(_column(OP).isin(*RETRACTIONS), F.lit(False))).asc())
    return by_key(batch, key, fence).sortWithinPartitions(*terms, F.col(RANK_IN_ROWS).asc())


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")
