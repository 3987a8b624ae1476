"""The state of a job as its tasks copy it, without a query: rows of a URL and its count, by bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from headrace.operators.state.copies import keep_copy
from headrace.operators.state.run import COLUMN, ID, ID_TYPE, Run, ids_column
from headrace.pipeline.answering.state_partitions import FOLDER, StatePartitions
from headrace.pipeline.checkpoint import Checkpoint
from headrace.plan_names import OperatorMark

SCHEMA = pa.schema(
    [
        pa.field(ID, ID_TYPE),
        pa.field("k0", pa.string(), metadata={COLUMN: b"url"}),
        pa.field("n", pa.int64()),
    ]
)


def mark(name: str = "tumbling", digest: str = "00000001") -> OperatorMark:
    return OperatorMark(operator=name, kept_for="all", owner=f"{name} {digest}", late_topic=None)


class CopiedState:
    def __init__(self, folder: Path, *marks: OperatorMark) -> None:
        self.checkpoint = Checkpoint(folder)
        self.marks = marks or (mark(),)
        # Spark is needed for the state of its own operators only.
        self.partitions = StatePartitions(cast("Any", None), self.checkpoint, self.marks)

    def write(self, bucket: int, batch_id: int, rows: dict[str, int], *, owner: str | None = None) -> None:
        ids = np.array([hash(url) % 2**32 for url in rows], dtype=np.complex128)
        columns = [ids_column(ids), pa.array(list(rows)), pa.array(list(rows.values()))]
        run = Run.of(pa.table(columns, SCHEMA), np.empty(0, dtype=np.complex128))
        keep_copy(
            Path(self.checkpoint.folder.address) / FOLDER,
            owner=owner or self.marks[0].owner,
            bucket=bucket,
            batch_id=batch_id,
            runs=[run],
        )

    def commit(self, batch_id: int) -> None:
        commits = Path(self.checkpoint.folder.address) / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        (commits / str(batch_id)).touch()
