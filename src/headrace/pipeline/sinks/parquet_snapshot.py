"""The next snapshot of a Parquet table: who may build it, which files stay or are rewritten, when it is published.

Erasures use this module too, so it does not import Spark.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.files import replace_link
from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.parquet_layout import (
    DESCRIPTION,
    SCHEMA,
    Description,
    data_files,
    open_dataset,
    partition_folder,
    snapshots_folder,
)
from headrace.process_lock import ProcessLock
from headrace.sync import sync_directory, sync_file

ROWS_PER_FILE_MAX = 1_000_000
"""A change rewrites the file of its row: this bounds the work and the memory."""

SMALL_FILE_ROWS = ROWS_PER_FILE_MAX // 10
"""Smaller files are joined with the rows that their partition gets, so that a partition has few of them."""

PARTITIONS_MAX = 10_000
"""More folders than this are slow to list, for every reader."""

SNAPSHOTS_MAX = 50
"""Bounds the links of a table that changes every second."""

LOCK_TIMEOUT_S = 60.0
LOCK_PAUSE_S = 0.05

_PLACE = "headrace_place"


@contextlib.contextmanager
def taking_turns(table: Path) -> Iterator[None]:
    """The processes that write a table: jobs, and erasures."""
    lock = ProcessLock(snapshots_folder(table) / "lock")
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while not lock.take():
        if time.monotonic() >= deadline_s:
            raise SinkUnavailable(
                f"another process has been writing {table} for {LOCK_TIMEOUT_S:.0f} s",
                hint="stop the other one, or give this table another folder",
            )
        time.sleep(LOCK_PAUSE_S)
    try:
        yield
    finally:
        lock.release()


class Snapshot:
    """A folder that nobody reads before `publish`."""

    def __init__(self, folder: Path, number: int, schema: pa.Schema, description: Description) -> None:
        self.schema = schema
        self.description = description
        self._folder = folder
        self._number = number
        self._building = folder / ".building"
        if self._building.exists():
            shutil.rmtree(self._building)  # of a process that was killed
        self._building.mkdir(parents=True)

    def link(self, file: Path, partition: str) -> None:
        (self._building / partition).mkdir(parents=True, exist_ok=True)
        os.link(file, self._building / partition / file.name)

    def add(self, rows: pa.Table, partition: str) -> None:
        if not rows.num_rows:
            return
        folder = self._building / partition
        folder.mkdir(parents=True, exist_ok=True)
        stored = rows.drop_columns(list(self.description.partition_by))
        for start in range(0, stored.num_rows, ROWS_PER_FILE_MAX):
            path = folder / f"{uuid.uuid4().hex}.parquet"
            pq.write_table(stored.slice(start, ROWS_PER_FILE_MAX), path)
            _sync(path)

    def publish(self, table: Path) -> None:
        """In one step, and durable."""
        pq.write_metadata(self.schema, self._building / SCHEMA)
        (self._building / DESCRIPTION).write_bytes(msgspec.json.encode(self.description))
        _sync(self._building / SCHEMA)
        _sync(self._building / DESCRIPTION)
        for folder, _, _ in os.walk(self._building):
            sync_directory(folder)
        place = self._folder / str(self._number)
        if place.exists():
            shutil.rmtree(place)  # built by a process that was killed before it moved the link
        self._building.rename(place)
        sync_directory(self._folder)
        replace_link(table, f"{self._folder.name}/{self._number}")

    def delete_older(self, keep_s: float) -> None:
        """Those whose successor is older than `keep_s`, and all but the last ones."""
        numbers = sorted(int(each.name) for each in self._folder.iterdir() if each.name.isdecimal())
        for number, successor in itertools.pairwise(numbers):
            age_s = time.time() - (self._folder / str(successor)).stat().st_mtime
            if age_s >= keep_s or number <= self._number - SNAPSHOTS_MAX:
                shutil.rmtree(self._folder / str(number), ignore_errors=True)


def delete_others(newest: Path) -> None:
    """All snapshots but this one, also those that readers have open, and what a killed process left: for an erasure."""
    for each in newest.parent.iterdir():
        if each.is_dir() and each != newest:
            shutil.rmtree(each)
    sync_directory(newest.parent)


class Partitions:
    """The files of the snapshot before, with the changes of one batch."""

    def __init__(self, before: Path, after: Snapshot) -> None:
        self._after = after
        self._key = list(after.description.key)
        self._partition_by = list(after.description.partition_by)
        self._files = {path: _partition(path, before) for path in data_files(before)}
        self._fragments = (
            {Path(each.path): each for each in open_dataset(before).get_fragments()} if self._files else {}
        )
        self._rows: dict[str, list[pa.Table]] = {}
        """to be written, by partition"""

    def change(self, upserts: pa.Table, deletes: pa.Table) -> None:
        if self._key:
            keys = pa.concat_tables([upserts.select(self._key), _cast(deletes, upserts.schema, self._key)])
            self._remove(keys)
        for folder, rows in self._by_folder(upserts):
            self._rows.setdefault(folder, []).append(rows)
        if len({*self._files.values(), *self._rows}) > PARTITIONS_MAX:
            raise BadSink(
                f"the table would have more than {PARTITIONS_MAX} partitions by {', '.join(self._partition_by)}",
                hint="partition by a column with fewer values, such as a date",
            )

    def remove_where(self, column: str, is_removed: Callable[[Any], Any]) -> None:
        """Rewrite the files that have such values in this column; one at a time, whatever the key is."""
        for path, folder in list(self._files.items()):
            found = is_removed(self._read(path, [column])[column])
            if pc.any(found).as_py():
                self._after.add(self._read(path).filter(pc.invert(found)), folder)
                del self._files[path]

    def write(self) -> None:
        for path, folder in list(self._files.items()):
            if folder in self._rows and pq.read_metadata(path).num_rows < SMALL_FILE_ROWS:
                self._rows[folder].insert(0, self._read(path))
                del self._files[path]
        for path, folder in self._files.items():
            self._after.link(path, folder)
        for folder, tables in self._rows.items():
            self._after.add(pa.concat_tables(tables), folder)

    def _remove(self, keys: pa.Table) -> None:
        """Rewrite the files that have rows with these keys."""
        folders = None
        if set(self._partition_by) <= set(self._key):
            folders = {folder for folder, _ in self._by_folder(keys)}
        for path, folder in list(self._files.items()):
            if folders is not None and folder not in folders:
                continue
            there = self._read(path, self._key)
            there = there.append_column(_PLACE, pa.array(range(there.num_rows), pa.int64()))
            found = there.join(keys, keys=self._key, join_type="left semi")[_PLACE]
            if len(found):
                all_places = pa.array(range(there.num_rows), pa.int64())
                is_left = pc.invert(pc.is_in(all_places, value_set=found.combine_chunks()))
                self._rows.setdefault(folder, []).append(self._read(path).filter(is_left))
                del self._files[path]

    def _by_folder(self, rows: pa.Table) -> list[tuple[str, pa.Table]]:
        if not self._partition_by:
            return [("", rows)] if rows.num_rows else []
        placed = rows.select(self._partition_by).append_column(
            _PLACE, pa.array(range(rows.num_rows), pa.int64())
        )
        groups = placed.group_by(self._partition_by, use_threads=False).aggregate([(_PLACE, "list")])
        found = []
        for group in groups.to_pylist():
            values = [group[name] for name in self._partition_by]
            places = pa.array(group[f"{_PLACE}_list"], pa.int64())
            found.append((partition_folder(self._partition_by, values), rows.take(places)))
        return found

    def _read(self, path: Path, columns: list[str] | None = None) -> pa.Table:
        return self._fragments[path].to_table(
            schema=self._after.schema, columns=columns or self._after.schema.names
        )


def _partition(path: Path, snapshot: Path) -> str:
    """As `partition_folder` has it."""
    return "" if path.parent == snapshot else path.parent.relative_to(snapshot).as_posix()


def _cast(rows: pa.Table, schema: pa.Schema, names: list[str]) -> pa.Table:
    return rows.select(names).cast(pa.schema([schema.field(name) for name in names]))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        sync_file(file.fileno())
