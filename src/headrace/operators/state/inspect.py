"""Reading the state of a checkpoint as rows.

Spark reads its own state stores (format `statestore`). Manifests and runs are assembled in Spark's tasks, bucket by
bucket, so that only matching rows reach the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.operators.state.expiring import table_of
from headrace.operators.state.manifest import Manifest
from headrace.operators.state.packing import CLOCK_BUCKET
from headrace.operators.state.run import COLUMN, ID, LABEL, TOMBSTONE, Run, decode_table, encode_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

BUCKET_COLUMN = "bucket"
ROWS_MAX = 1 << 40
"""No limit."""

Keys = Sequence[str] | Mapping[str, str]
"""The key columns as text: in order, or by name."""

_FOUND = "owner string, keys array<string>, rows binary, count bigint"


class StateOperator(Struct, frozen=True, kw_only=True):
    """A stateful operator of a checkpoint."""

    number: int
    name: str
    """The operator name in Spark's metadata."""
    is_of_headrace: bool
    side: str | None = None
    """`left` or `right` for Spark's stream-stream join."""


class StateRows(Struct, frozen=True, kw_only=True):
    """Rows of the state of one operator."""

    owner: str
    """The operator that wrote the state, such as `tumbling 1f2e3d4c`; empty if the state is empty."""
    keys: tuple[str, ...]
    rows: pa.Table
    count: int
    """The number of matching rows, including those beyond the limit."""


def state_operators(spark: SparkSession, checkpoint: str | Path) -> list[StateOperator]:
    """The stateful operators of a checkpoint, by number."""
    found: dict[tuple[int, str | None], StateOperator] = {}
    for row in spark.read.format("state-metadata").load(str(checkpoint)).collect():
        metadata = row.asDict()
        is_join = metadata["operatorName"] == "symmetricHashJoin"
        side = metadata["stateStoreName"].split("-")[0] if is_join else None
        properties = str(metadata.get("operatorProperties") or "")
        found[metadata["operatorId"], side] = StateOperator(
            number=metadata["operatorId"],
            name=metadata["operatorName"],
            is_of_headrace="manifest" in properties and "runs" in properties,
            side=side,
        )
    return [found[place] for place in sorted(found, key=lambda each: (each[0], each[1] or ""))]


def read_state(spark: SparkSession, checkpoint: str | Path, *, operator: int = 0) -> pa.Table:
    """All rows in the state of an operator, as of the last committed batch. Bounds and times are microseconds since the
    epoch.
    """
    return find_state(spark, checkpoint, operator=operator).rows


def find_state(
    spark: SparkSession,
    checkpoint: str | Path,
    *,
    operator: int = 0,
    keys: Keys = (),
    rows_max: int = ROWS_MAX,
) -> StateRows:
    """The rows of a key, or all rows; at most `rows_max` per bucket and in total."""
    by_bucket = read_runs(spark, checkpoint, operator).groupBy(BUCKET_COLUMN)
    found = by_bucket.applyInArrow(_finder(keys, rows_max), _FOUND).collect()
    tables = [decode_table(bytes(row.rows)) for row in found if row.rows is not None]
    if not tables:
        return StateRows(owner=found[0].owner if found else "", keys=(), rows=_nothing(), count=0)
    names = next(row["keys"] for row in found if row["keys"] is not None)
    check_keys(names, keys)
    rows = pa.concat_tables(tables, promote_options="default").slice(0, rows_max)
    return StateRows(
        owner=found[0].owner,
        keys=tuple(names),
        rows=with_names(rows),
        count=sum(row["count"] for row in found),
    )


def read_own_state(spark: SparkSession, checkpoint: str | Path, operator: StateOperator) -> DataFrame:
    """The state of one of Spark's own operators, in Spark's columns."""
    own = _own(spark, checkpoint, operator)
    return own.select(*_own_columns(own))


def read_own_partitions(
    spark: SparkSession, checkpoint: str | Path, operator: StateOperator, *, batch_id: int
) -> DataFrame:
    """The same after this batch, with the number of the partition as the column `bucket`."""
    own = _own(spark, checkpoint, operator, batchId=str(batch_id))
    return own.select(own["partition_id"].alias(BUCKET_COLUMN), *_own_columns(own, BUCKET_COLUMN))


def read_runs(
    spark: SparkSession, checkpoint: str | Path, operator: int, *, batch_id: int | None = None
) -> DataFrame:
    """The state of an operator of Headrace as it is stored: bucket, manifest, and the name and the content of a run."""
    from pyspark.sql import functions as F

    of_bucket = F.col("key")[BUCKET_COLUMN]
    manifests = (
        _read(spark, checkpoint, operator, "manifest", batch_id)
        .filter(of_bucket != CLOCK_BUCKET)
        .select(of_bucket.alias(BUCKET_COLUMN), F.col("value")["text"].alias("manifest"))
    )
    runs = _read(spark, checkpoint, operator, "runs", batch_id).select(
        of_bucket.alias(BUCKET_COLUMN),
        F.col("user_map_key")["text"].alias("name"),
        F.col("user_map_value")["content"].alias("content"),
    )
    return manifests.join(runs, BUCKET_COLUMN, "left")


def _own_columns(own: DataFrame, *taken: str) -> list[Column]:
    """Key and value; a name that is taken has `key.` or `value.` in front. Session windows have the key in both."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    names = set(taken)
    columns = []
    for part in ("key", "value"):
        kind = own.schema[part].dataType
        assert isinstance(kind, StructType)
        for each in kind.names:
            columns.append(F.col(part)[each].alias(f"{part}.{each}" if each in names else each))
            names.add(each)
    return columns


def _own(spark: SparkSession, checkpoint: str | Path, operator: StateOperator, **options: str) -> DataFrame:
    reader = _reader(spark, operator.number).options(**options)
    if operator.side is not None:
        reader = reader.option("joinSide", operator.side)
    return reader.load(str(checkpoint))


def _read(
    spark: SparkSession, checkpoint: str | Path, operator: int, variable: str, batch_id: int | None
) -> DataFrame:
    reader = _reader(spark, operator).option("stateVarName", variable)
    if batch_id is not None:
        reader = reader.option("batchId", batch_id)
    return reader.load(str(checkpoint))


def _reader(spark: SparkSession, operator: int) -> DataFrameReader:
    # Reading needs Spark's state store coordinator. Accessing the streams of the session starts it.
    _ = spark.streams.active
    return spark.read.format("statestore").option("operatorId", operator)


def _finder(keys: Keys, rows_max: int) -> Callable[[pa.Table], pa.Table]:
    def found(bucket: pa.Table) -> pa.Table:
        rows = bucket.to_pylist()
        manifest = Manifest.from_json(rows[0]["manifest"])
        runs = {row["name"]: row["content"] for row in rows if row["name"] is not None}
        table = _bucket(manifest, runs, rows[0][BUCKET_COLUMN])
        kept = None if table is None else rows_of_key(table, keys)
        names = None if table is None else key_names(table)
        return pa.table(
            {
                "owner": pa.array([manifest.owner], pa.string()),
                "keys": pa.array([names], pa.list_(pa.string())),
                "rows": pa.array(
                    [None if kept is None else encode_table(kept.slice(0, rows_max))], pa.binary()
                ),
                "count": pa.array([0 if kept is None else kept.num_rows], pa.int64()),
            }
        )

    return found


def _bucket(manifest: Manifest, runs: Mapping[str, bytes], bucket: int) -> pa.Table | None:
    missing = [name for name in manifest.runs if name not in runs]
    if missing:
        raise HeadraceError(
            f"run {missing[0]} of bucket {bucket} is missing",
            hint="a batch was committed while the state was read: read it again",
        )
    decoded = [Run.decode(runs[name], name=name) for name in manifest.runs]
    return rows_of_runs(decoded, bucket, expired_us=manifest.expired_us)


def rows_of_runs(runs: Sequence[Run], bucket: int, *, expired_us: int | None) -> pa.Table | None:
    """The rows of a bucket in the columns of its step; None if it has no run."""
    if not runs:
        return None
    schema = runs[-1].rows.drop_columns([TOMBSTONE]).schema
    rows = table_of(schema, runs, expired_us).all_rows().drop_columns([ID])
    numbers = pa.repeat(pa.scalar(bucket, pa.int32()), rows.num_rows)
    return rows.add_column(0, BUCKET_COLUMN, numbers)


def with_names(rows: pa.Table) -> pa.Table:
    """The rows with the names that users know. A column of the operator whose name is taken has `state.` in front."""
    known = {_name(field) for field in rows.schema if field.metadata}
    return rows.rename_columns(
        [
            _name(field) if field.metadata or field.name not in known else f"state.{field.name}"
            for field in rows.schema
        ]
    )


def key_names(rows: pa.Table) -> list[str]:
    """The names of the key columns, of rows in the columns of a step."""
    return [_name(field) for field in rows.schema if _is_key(field)]


def rows_of_key(rows: pa.Table, keys: Keys) -> pa.Table:
    names = {_name(field): field.name for field in rows.schema if _is_key(field)}
    wanted = keys if isinstance(keys, Mapping) else dict(zip(names, keys, strict=False))
    for name, text in wanted.items():
        if name in names:
            rows = rows.filter(pc.equal(rows.column(names[name]).cast(pa.string()), text))
    return rows


def rows_of_values(rows: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    """The rows, in columns with the names that users know, that have these values."""
    for name, value in values.items():
        if name not in rows.column_names:
            raise HeadraceError(
                f"the state has no column {name!r}", hint=f"there are: {', '.join(rows.column_names)}"
            )
        column = rows.column(name)
        if value is None:
            rows = rows.filter(pc.is_null(column))
            continue
        try:
            wanted = pa.scalar(str(value) if pa.types.is_string(column.type) else value).cast(column.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return rows.slice(0, 0)
        rows = rows.filter(pc.equal(column, wanted))
    return rows


def check_keys(names: Sequence[str], keys: Keys) -> None:
    unknown = [key for key in keys if key not in names] if isinstance(keys, Mapping) else keys[len(names) :]
    if unknown:
        raise HeadraceError(
            f"the state has no column for the key {unknown[0]!r}",
            hint=f"the key is: {', '.join(names)}" if names else "there is no key: all rows are together",
        )


def _is_key(field: pa.Field) -> bool:
    return COLUMN in (field.metadata or {})


def _name(field: pa.Field) -> str:
    known = field.metadata or {}
    name: Any = known.get(COLUMN, known.get(LABEL, field.name.encode()))
    return str(name.decode())


def _nothing() -> pa.Table:
    return pa.table({BUCKET_COLUMN: pa.array([], pa.int32())})
