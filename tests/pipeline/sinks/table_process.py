"""Writes batch after batch to a database until it is killed: `python -m tests.pipeline.sinks.table_process AT`.

Batch n is ten rows (n, 0) … (n, 9), and adds 1 to the total of every place. A new process goes on behind the fence.
"""

from __future__ import annotations

import sys
from contextlib import closing

import pyarrow as pa

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.table import Table
from tests.pipeline.sinks.databases import schema_of

PLACES = 10
ROWS = schema_of(batch="long", place="long")
TOTALS = schema_of(place="long", total="long")


def main(at: str) -> None:
    with (
        closing(Table("batches", at=at).open("rows", ROWS)) as rows,
        closing(Table("totals", key="place", merge={"total": "sum"}, at=at).open("totals", TOTALS)) as totals,
    ):
        print("ready", flush=True)
        while True:
            for writer, job in ((rows, "rows"), (totals, "totals")):
                done = writer.applied()
                batch_id = 0 if done is None else done.batch_id + 1
                places = list(range(PLACES))
                contents = {
                    "rows": {"batch": [batch_id] * PLACES, "place": places},
                    "totals": {"place": places, "total": [1] * PLACES},
                }
                batch = pa.table(contents[job]).to_batches()
                fence = Fence(job=job, checkpoint="c", batch_id=batch_id)
                writer.apply(batch, fence, print)
                # As after a crash between the write and Spark's commit: the same batch is repeated.
                assert writer.apply(batch, fence, print) == 0


if __name__ == "__main__":
    main(sys.argv[1])
