"""How a table of Parquet files is laid out: folders by partition as in Hive, a folder for each snapshot, and a link.

    users                       -> .users.snapshots/17
    .users.snapshots/17/city=Oslo/3f2a….parquet
    .users.snapshots/17/_headrace.json       fences; readers skip names that begin with _
    .users.snapshots/17/_common_metadata     the columns, also if there is no row
    .users.snapshots/16/                     for readers that have opened it

Files are never changed. A snapshot has those of the one before it as hard links, except for the rewritten ones. Readers
use this module too, so it does not import Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from msgspec import Struct

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence

DESCRIPTION = "_headrace.json"
SCHEMA = "_common_metadata"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\{[\\]^\x7f]")
"""The characters that Hive and Spark escape in the name of a folder. They decode a code as one character, so others
stay as they are."""


class Description(Struct, frozen=True, kw_only=True):
    """Of one snapshot."""

    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    fences: Mapping[str, Fence] = {}


def snapshots_folder(table: Path) -> Path:
    return table.with_name(f".{table.name}.snapshots")


def newest_snapshot(table: Path) -> Path | None:
    """The folder of the newest snapshot, which stays as it is; None if the table is missing."""
    try:
        target = os.readlink(table)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadSink(
            f"{table} was not created by Headrace", hint="give the table another folder with at="
        ) from error
    return table.parent / target


def read_description(snapshot: Path) -> Description:
    return msgspec.json.decode((snapshot / DESCRIPTION).read_bytes(), type=Description)


def read_schema(snapshot: Path) -> pa.Schema:
    return pq.read_schema(snapshot / SCHEMA).remove_metadata()


def open_dataset(snapshot: Path) -> Any:
    """The rows of a snapshot."""
    return dataset_of(
        data_files(snapshot), snapshot, read_schema(snapshot), read_description(snapshot).partition_by
    )


def dataset_of(files: Sequence[Path], folder: Path, schema: pa.Schema, partition_by: Sequence[str]) -> Any:
    """The rows of files in the folders by partition of `folder`."""
    if not files:
        return ds.dataset(schema.empty_table())
    partitions = pa.schema([schema.field(name) for name in partition_by])
    partitioning = ds.HivePartitioning(partitions, null_fallback=NULL_PARTITION, segment_encoding="uri")
    return ds.dataset(
        [str(path) for path in files],
        schema=schema,
        format="parquet",
        partitioning=partitioning,
        partition_base_dir=str(folder),
    )


def data_files(snapshot: Path) -> list[Path]:
    return sorted(snapshot.rglob("*.parquet"))


def partition_folder(names: Sequence[str], values: Sequence[Any]) -> str:
    """`city=Oslo/year=2026`; empty without partitions."""
    return "/".join(f"{_escaped(name)}={_text(value)}" for name, value in zip(names, values, strict=True))


def _text(value: Any) -> str:
    if value is None:
        return NULL_PARTITION
    if isinstance(value, bool):
        return "true" if value else "false"
    return _escaped(str(value))


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def check_partitions(schema: pa.Schema, names: Sequence[str]) -> None:
    for name in names:
        kind = schema.field(name).type
        if not any(is_kind(kind) for is_kind in _PARTITION_TYPES):
            raise BadSink(
                f"a column of type {kind} can't be a partition: {name}",
                hint="cast it to a text, a date or an integer",
            )
    if len(names) == len(schema):
        raise BadSink("all columns are partitions", hint="leave one for the files")


_PARTITION_TYPES = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)
