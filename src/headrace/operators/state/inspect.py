"""Looking into the state of a checkpoint: what a stateful operator keeps, as rows.

Spark reads its own state stores (format `statestore`); the manifests and runs in there are put together here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.operators.state.manifest import Manifest, UnreadableState
from headrace.operators.state.run import COLUMN, GONE, ID, Run
from headrace.operators.state.table import StateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET_COLUMN = "bucket"


def read_state(spark: SparkSession, checkpoint: str | Path, *, operator: int = 0) -> pa.Table:
    """All rows that the operator with this number keeps, as of the last batch that was committed.

    Bounds and times are microseconds after the epoch. All of it is brought here: it is meant for looking, and `--key`.
    """
    manifests = _read(spark, checkpoint, operator, "manifest").select("key", "value").collect()
    runs: dict[tuple[int, str], bytes] = {
        (row.key[0], row.user_map_key[0]): bytes(row.user_map_value[0])
        for row in _read(spark, checkpoint, operator, "runs").collect()
    }
    tables = []
    for bucket, text in sorted((row.key[0], row.value[0]) for row in manifests):
        table = _bucket(Manifest.from_json(text), runs, bucket)
        if table is not None:
            tables.append(table)
    return pa.concat_tables(tables) if tables else pa.table({BUCKET_COLUMN: pa.array([], pa.int32())})


def _read(spark: SparkSession, checkpoint: str | Path, operator: int, variable: str) -> Any:
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", variable)
    return reader.load(str(checkpoint))


def _bucket(manifest: Manifest, runs: dict[tuple[int, str], bytes], bucket: int) -> pa.Table | None:
    missing = [name for name in manifest.runs if (bucket, name) not in runs]
    if missing:
        raise UnreadableState(
            f"a part of the state of bucket {bucket} is missing: run {missing[0]}",
            hint="a batch was committed while the state was being read: read it again",
        )
    opened = [Run.decode(runs[bucket, name], name=name) for name in manifest.runs]
    if not opened:
        return None
    schema = opened[-1].rows.drop_columns([GONE]).schema
    rows = StateTable(schema, opened).all_rows().drop_columns([ID])
    names = [(field.metadata or {}).get(COLUMN, field.name.encode()).decode() for field in schema][1:]
    numbers = pa.repeat(pa.scalar(bucket, pa.int32()), rows.num_rows)
    return rows.rename_columns(names).add_column(0, BUCKET_COLUMN, numbers)
