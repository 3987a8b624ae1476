"""Parquet files of a Delta table, written beside its log: a commit on the driver adds them.

A task writes files only: a file that no commit adds is not part of the table.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from msgspec import Struct

STATISTICS_TEXT_MAX = 32
"""A longer text has no statistics: its prefix is no greatest value."""

UPLOAD_BYTES = 8 * 1024 * 1024


class DeltaFile(Struct, frozen=True, kw_only=True):
    path: str
    """Relative to the table."""
    size: int
    rows: int
    statistics: str
    modified_ms: int

    def action(self) -> AddAction:
        return AddAction(self.path, self.size, {}, self.modified_ms, True, self.statistics)


class DeltaFolder(Struct, frozen=True, kw_only=True):
    """Where a table is."""

    address: str
    storage_options: Mapping[str, str]
    """With credentials."""

    def __repr__(self) -> str:
        return "DeltaFolder()"

    def put(self, written: Path, name: str) -> None:
        """Move a file of this machine to the table."""
        if "://" not in self.address:
            # A crash while it is copied leaves a file that no commit knows.
            shutil.move(written, Path(self.address) / name)
            return
        handler = DeltaStorageHandler(self.address, dict(self.storage_options))
        # Not its own method: the stream of Arrow around this one passes buffers, which it rejects.
        stream = handler._handler.open_output_stream(name)
        with written.open("rb") as source:
            while block := source.read(UPLOAD_BYTES):
                stream.write(block)
        stream.close()  # type: ignore[attr-defined]  # its stub has none


def write_files(
    folder: DeltaFolder, chunks: Iterable[pa.Table], schema: pa.Schema, file_bytes: int, modified_ms: int
) -> Iterator[DeltaFile]:
    """Write the rows; a new file begins when one has `file_bytes`. Memory is that of a chunk."""
    left = iter(chunks)
    chunk = next(left, None)
    while chunk is not None:
        name = f"part-{uuid.uuid4()}.snappy.parquet"
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / name
            with pq.ParquetWriter(path, schema, compression="snappy") as writer:
                is_full = False
                while chunk is not None and not is_full:
                    writer.write_table(chunk.cast(schema))
                    chunk = next(left, None)
                    is_full = path.stat().st_size >= file_bytes
            metadata = pq.read_metadata(path)
            size = path.stat().st_size
            folder.put(path, name)
        yield DeltaFile(
            path=name,
            size=size,
            rows=metadata.num_rows,
            statistics=statistics_of(metadata),
            modified_ms=modified_ms,
        )


def statistics_of(metadata: pq.FileMetaData) -> str:
    """Of the columns that are not nested, as Delta's protocol has them."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            name, found = column.path_in_schema, column.statistics
            if "." in name or found is None:
                continue
            if found.has_null_count:
                nulls[name] = nulls.get(name, 0) + found.null_count
            if found.has_min_max and _is_comparable(found.min) and _is_comparable(found.max):
                least[name] = min(least.get(name, found.min), found.min)
                greatest[name] = max(greatest.get(name, found.max), found.max)
            elif found.num_values:
                unknown.add(name)
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": {name: _as_json(value) for name, value in least.items() if name not in unknown},
            "maxValues": {name: _as_json(value) for name, value in greatest.items() if name not in unknown},
            "nullCount": nulls,
        }
    )


def _is_comparable(value: Any) -> bool:
    if isinstance(
        value, bool | float
    ):  # NaN is in no statistics of Parquet, and greater than all others for Spark
        return False
    if isinstance(value, str):
        return len(value) <= STATISTICS_TEXT_MAX
    if isinstance(value, datetime):
        return value.microsecond % 1_000 == 0  # the protocol has milliseconds
    return isinstance(value, int | date)


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        text = value.astimezone(UTC) if value.tzinfo else value
        return (
            text.strftime("%Y-%m-%dT%H:%M:%S.")
            + f"{value.microsecond // 1_000:03}"
            + ("Z" if value.tzinfo else "")
        )
    return value.isoformat() if isinstance(value, date) else value
