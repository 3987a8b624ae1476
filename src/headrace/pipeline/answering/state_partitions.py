"""The state of a running job, partition by partition, as of its last committed batch.

The state of Headrace's operators is read from the copies that tasks write (`operators.state.copies`), without Spark.
The state of Spark's own operators is read by Spark, once for each batch; so is all state if the checkpoint is in
another file system and the tasks run on other machines, because then there is no folder for copies.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.operators.state.copies import (
    READ_TRIES,
    Content,
    CopiedBucket,
    CopyChanged,
    open_copies,
    read_buckets,
    seed_copies,
)
from headrace.operators.state.inspect import (
    BUCKET_COLUMN,
    StateOperator,
    read_own_partitions,
    state_operators,
    with_names,
)
from headrace.pipeline.checkpoint import Checkpoint
from headrace.plan_names import STATE_COPIES_FOLDER, OperatorMark
from headrace.questions.errors import BadQuestion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "headrace-copies"
"""In a checkpoint on this machine, or in a folder that all machines mount."""

CACHED_BYTES_MAX = 256_000_000
"""Of merged rows in the driver. The partitions beyond it are merged for each question."""


class Partition(Struct, frozen=True, kw_only=True):
    """A partition of the state, whose rows are read when they are needed."""

    number: int
    rows: Callable[[], pa.Table]


class Snapshot(Struct, frozen=True, kw_only=True):
    """The state of an operator after a committed batch."""

    batch_id: int | None
    partitions: tuple[Partition, ...]


class StatePartitions:
    """Reads the state of one job, in one thread."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Checkpoint,
        marks: Sequence[OperatorMark],
        *,
        is_local: bool = True,
    ) -> None:
        """`is_local`: whether tasks run on this machine."""
        self._spark = spark
        self._checkpoint = checkpoint
        self._folder = _folder_of_copies(checkpoint, is_local=is_local)
        self._marks = tuple(marks)
        self._merged: dict[tuple[str, int], tuple[Content, pa.Table]] = {}
        self._merged_bytes = 0
        self._own: dict[str, tuple[int, dict[int, pa.Table]]] = {}
        self._read: dict[str, tuple[int, list[CopiedBucket]]] = {}
        self._own_operators: list[StateOperator] | None = None

    def prepare(self) -> None:
        """Before the query starts: copy the state of the checkpoint."""
        self._merged.clear()
        self._merged_bytes = 0
        self._own.clear()
        self._read.clear()
        self._own_operators = None
        if self._marks and self._folder is not None:
            seed_copies(
                self._spark,
                self._checkpoint.folder.address,
                self._folder,
                batch_id=self._checkpoint.committed_batch() if self._checkpoint.has_state() else None,
            )

    @contextlib.contextmanager
    def copied(self) -> Iterator[None]:
        """The tasks of a query that is started inside copy their state."""
        context = self._spark.sparkContext
        if not self._marks or self._folder is None:
            yield
            return
        context.setLocalProperty(STATE_COPIES_FOLDER, str(self._folder))
        try:
            yield
        finally:
            context.setLocalProperty(STATE_COPIES_FOLDER, None)  # type: ignore[arg-type]  # that removes it

    def snapshot(self, operator: str | None) -> Snapshot:
        """The state of an operator: by its name, by its name and hash, or the only one."""
        batch_id = self._checkpoint.committed_batch()
        if batch_id is None:
            return Snapshot(batch_id=None, partitions=())
        chosen = [
            mark for mark in self._marks if operator in (None, mark.owner, mark.owner.partition(" ")[0])
        ]
        if len(chosen) == 1 and (operator is not None or len(self._marks) == 1):
            owner = chosen[0].owner
            return self._of_state(owner) if self._folder is None else self._of_copies(self._folder, owner)
        if chosen:
            owners = [mark.owner for mark in chosen]
            raise BadQuestion(
                f"the job has {len(chosen)} stateful operators"
                + ("" if operator is None else f" called {operator!r}"),
                hint=f"name one: {', '.join(owners)}"
                if len(set(owners)) == len(owners)
                else "two operators that are the same can't be told apart",
            )
        return self._of_spark(operator, batch_id)

    def _of_copies(self, folder: Path, owner: str) -> Snapshot:
        for _ in range(READ_TRIES):
            batch_id = self._checkpoint.committed_batch()
            assert batch_id is not None
            with contextlib.suppress(CopyChanged):
                return self._of_buckets(owner, batch_id, open_copies(folder, owner, batch_id))
        raise CopyChanged(f"the state of `{owner}` changes too fast", hint="ask again")

    def _of_state(self, owner: str) -> Snapshot:
        batch_id = self._checkpoint.committed_batch()
        assert batch_id is not None
        kept = self._read.get(owner)
        if kept is None or kept[0] != batch_id:
            buckets = read_buckets(self._spark, self._checkpoint.folder.address, owner, batch_id=batch_id)
            kept = self._read[owner] = batch_id, buckets
        return self._of_buckets(owner, *kept)

    def _of_buckets(self, owner: str, batch_id: int, buckets: Sequence[CopiedBucket]) -> Snapshot:
        return Snapshot(
            batch_id=batch_id,
            partitions=tuple(
                Partition(number=each.number, rows=self._merger(owner, each)) for each in buckets
            ),
        )

    def _merger(self, owner: str, bucket: CopiedBucket) -> Callable[[], pa.Table]:
        def rows() -> pa.Table:
            place = owner, bucket.number
            merged = self._merged.get(place)
            if merged is not None and merged[0] == bucket.content:
                return merged[1]
            if merged is not None:
                self._merged_bytes -= merged[1].nbytes
                del self._merged[place]
            found = bucket.rows()
            assert found is not None
            named = with_names(found)
            if self._merged_bytes + named.nbytes <= CACHED_BYTES_MAX:
                self._merged[place] = bucket.content, named
                self._merged_bytes += named.nbytes
            return named

        return rows

    def _of_spark(self, operator: str | None, batch_id: int) -> Snapshot:
        kept = self._own.get(operator or "")
        if kept is None or kept[0] != batch_id:
            chosen = self._own_operator(operator)
            rows = read_own_partitions(
                self._spark, self._checkpoint.folder.address, chosen, batch_id=batch_id
            ).toArrow()
            numbers = rows.column(BUCKET_COLUMN)
            kept = (
                batch_id,
                {
                    number: rows.filter(pc.equal(numbers, number))
                    for number in sorted(numbers.unique().to_pylist())
                },
            )
            self._own[operator or ""] = kept
        return Snapshot(
            batch_id=batch_id,
            partitions=tuple(
                Partition(number=number, rows=_always(rows)) for number, rows in kept[1].items()
            ),
        )

    def _own_operator(self, operator: str | None) -> StateOperator:
        found = state_operators(self._spark, self._checkpoint.folder.address)
        there = [each for each in found if not each.is_of_headrace]
        names = {f"{each.name} {each.side}" if each.side else each.name: each for each in there}
        if operator is None and len(there) == 1 and not self._marks:
            return there[0]
        if operator in names:
            return names[operator]
        known = [*(mark.owner for mark in self._marks), *names]
        raise BadQuestion(
            f"the job has no stateful operator {operator!r}"
            if operator
            else "the question names no operator",
            hint=f"there are: {', '.join(known)}",
        )


def _folder_of_copies(checkpoint: Checkpoint, *, is_local: bool) -> Path | None:
    """None if driver and tasks have none in common. A checkpoint in another file system has a folder of this process,
    because the copies are written again when a query starts."""
    if checkpoint.folder.path is not None:
        return checkpoint.folder.path / FOLDER
    if not is_local:
        return None
    folder = tempfile.mkdtemp(prefix=f"{FOLDER}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _always(rows: pa.Table) -> Callable[[], pa.Table]:
    return lambda: rows
