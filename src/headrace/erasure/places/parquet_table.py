"""A table of Parquet files that the sink `Parquet` wrote. Files are never changed, and older snapshots share them.

So the files with the person's rows are rewritten in a new snapshot, and all other snapshots are deleted. The fences of
jobs are carried on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.subject import Subject
from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.parquet_layout import (
    data_files,
    dataset_of,
    newest_snapshot,
    read_description,
    read_schema,
    snapshots_folder,
)
from headrace.pipeline.sinks.parquet_snapshot import Partitions, Snapshot, delete_others, taking_turns

READ_TRIES_MAX = 100
"""Each reads what a job has written during the one before."""

_TEXT_TYPES = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_date,
)


class _File(NamedTuple):
    path: Path
    """in the folder of a snapshot; snapshots that share a file have it at the same path"""
    is_published: bool


class ParquetTable:
    def __init__(self, table: Path, column: str) -> None:
        self.name = f"parquet {table} {column}"
        self._table = table.absolute()
        self._column = column

    def remaining(self, subject: Subject) -> int:
        """Rows in all snapshots, also in one that a killed process left. A file that some of them share counts once.

        A job may publish and delete snapshots meanwhile. Files are never changed, so only the new ones are read again.
        """
        is_own = self._is_own(subject)
        found: dict[_File, int] = {}
        for _ in range(READ_TRIES_MAX):
            with contextlib.suppress(FileNotFoundError):
                there = self._files()
                for file in there.keys() - found.keys():
                    found[file] = self._rows_in(file, there[file], is_own)
                if there.keys() == self._files().keys():
                    return sum(found[file] for file in there)
        raise ErasureInterrupted(
            f"{self.name}: a job changes the table faster than it can be read",
            hint="stop the job, then `headrace erase continue` with the same --place",
        )

    def erase(self, subject: Subject) -> None:
        is_own = self._is_own(subject)
        try:
            with taking_turns(self._table):
                before = self._newest()
                after = Snapshot(
                    before.parent, int(before.name) + 1, read_schema(before), read_description(before)
                )
                partitions = Partitions(before, after)
                partitions.remove_where(self._column, is_own)
                partitions.write()
                after.publish(self._table)
                delete_others(self._newest())
        except SinkUnavailable as error:
            raise ErasureInterrupted(
                f"{self.name}: {error.message}",
                hint="`headrace erase continue` with the same --place tries again",
            ) from error

    def _files(self) -> dict[_File, Path]:
        """With the folder of a snapshot that has it. The newest snapshot is in the list, whole."""
        newest = self._newest()
        found: dict[_File, Path] = {}
        for folder in snapshots_folder(self._table).iterdir():
            is_published = folder.name.isdecimal()
            found |= {_File(path.relative_to(folder), is_published): folder for path in data_files(folder)}
        if self._newest() != newest:
            raise FileNotFoundError(newest)
        return {
            file: folder
            for file, folder in found.items()
            if file.is_published or file._replace(is_published=True) not in found
        }

    def _rows_in(self, file: _File, folder: Path, is_own: Callable[[Any], Any]) -> int:
        newest = self._newest()
        schema, partition_by = read_schema(newest), read_description(newest).partition_by
        dataset = dataset_of([folder / file.path], folder, schema, partition_by)
        try:
            values = dataset.to_table(columns=[self._column])[self._column]
        except pa.ArrowInvalid:
            if file.is_published:
                raise
            return 0  # its writer was killed, or is still writing it
        return int(pc.sum(is_own(values)).as_py() or 0)

    def _is_own(self, subject: Subject) -> Callable[[Any], Any]:
        wanted = subject.column(self._column)
        kinds = {each.name: each.type for each in read_schema(self._newest())}
        kind = kinds.get(self._column)
        if kind is None:
            raise BadErasure(f"{self.name}: there is no such column", hint=f"it has {', '.join(kinds)}")
        if not any(is_kind(kind) for is_kind in _TEXT_TYPES):
            raise BadErasure(
                f"{self.name}: a column of type {kind} can't name a person",
                hint="name one of texts or numbers",
            )
        return lambda values: pc.fill_null(pc.equal(values.cast("string"), wanted), False)

    def _newest(self) -> Path:
        try:
            found = newest_snapshot(self._table)
        except BadSink as error:
            raise BadErasure(
                f"{self.name}: {error.message}", hint="name the table of a `Parquet` sink"
            ) from error
        if found is None:
            raise BadErasure(
                f"there is no Parquet table at {self._table}", hint="name the table of a `Parquet` sink"
            )
        return found
