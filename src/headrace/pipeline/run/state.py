"""The state of a job, read from its checkpoint, operator by operator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from headrace.pipeline.errors import BadJob
from headrace.pipeline.report.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.operators.state.inspect import StateOperator

Notify = Callable[[str], None]
"""Gets messages about the progress: Spark takes seconds to start, and large state takes longer to read."""


class OperatorState(Struct, frozen=True, kw_only=True):
    """The state of one operator after a batch."""

    number: int
    name: str
    batch_id: int
    keys: tuple[str, ...]
    rows: pa.Table
    count: int
    """of all matching rows, also those beyond the limit"""


def read_job_state(
    data_dir: str | Path,
    job: str,
    *,
    rows_max: int,
    operator: int | None = None,
    keys: Sequence[str] | Mapping[str, str] = (),
    notify: Notify = lambda _text: None,
) -> list[OperatorState]:
    """The state of the operators of a job, or of the one with this number, with at most `rows_max` rows each."""
    from headrace.operators.state.inspect import state_operators

    checkpoint = Registry(data_dir).checkpoint(job)
    batch_id = checkpoint.committed_batch()
    if batch_id is None:
        raise BadJob(f"job {job} has not committed a batch yet", hint="run it; state is written with a batch")
    if not checkpoint.has_state():
        raise BadJob(
            f"job {job} keeps no state: none of its steps needs any",
            hint=f"`headrace job status {job}` shows its progress",
        )
    with _session(data_dir, notify) as spark:
        there = state_operators(spark, checkpoint.folder.address)
        wanted = [each for each in there if operator is None or each.number == operator]
        if not wanted:
            numbers = ", ".join(f"{each.number} ({each.name})" for each in there)
            raise BadJob(f"job {job} has no stateful operator {operator}", hint=f"there are: {numbers}")
        found = []
        for each in wanted:
            notify(f"reading operator {each.number} of batch {batch_id}")
            found.append(_read(spark, checkpoint.folder.address, each, batch_id, keys, rows_max))
        return found


def _read(
    spark: SparkSession,
    checkpoint: str,
    operator: StateOperator,
    batch_id: int,
    keys: Sequence[str] | Mapping[str, str],
    rows_max: int,
) -> OperatorState:
    from headrace.operators.state.inspect import find_state, read_own_state

    if operator.is_of_headrace:
        state = find_state(spark, checkpoint, operator=operator.number, keys=keys, rows_max=rows_max)
        name = state.owner.partition(" ")[0] or operator.name
        names, rows, count = state.keys, state.rows, state.count
    elif keys:
        raise BadJob(
            f"operator {operator.number} ({operator.name}) is Spark's own: its keys have no names to search for",
            hint="omit --key, and search the output",
        )
    else:
        own = read_own_state(spark, checkpoint, operator)
        name = f"{operator.name} {operator.side}" if operator.side else operator.name
        names, rows, count = (), own.limit(rows_max).toArrow(), own.count()
    return OperatorState(
        number=operator.number, name=name, batch_id=batch_id, keys=names, rows=rows, count=count
    )


@contextlib.contextmanager
def _session(data_dir: str | Path, notify: Notify) -> Iterator[SparkSession]:
    """The session of this process, or a temporary one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from headrace.pipeline.spark.session import session

    if SparkContext._active_spark_context is not None:
        yield SparkSession.builder.getOrCreate()
        return
    notify("starting Spark")
    spark = session("job-state", master="local[*]", data_dir=data_dir)
    try:
        yield spark
    finally:
        spark.stop()
