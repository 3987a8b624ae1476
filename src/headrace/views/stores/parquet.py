"""Views as tables of Parquet files in Hive's folders, for Spark, DuckDB, Hive and pandas.

Option `partition_by`: columns, with commas, that have a folder for each value.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.kafka.position import Position
from headrace.pipeline.sinks.parquet_layout import (
    newest_snapshot,
    open_dataset,
    read_description,
    read_schema,
    snapshots_folder,
)
from headrace.views.definition import Definition, Row
from headrace.views.selection import Selection
from headrace.views.store import Store
from headrace.views.stores.files_reader import FilesReader
from headrace.views.stores.folder_versions import FolderVersions
from headrace.views.stores.options import check_options, column_option
from headrace.views.stores.row_selection import select_from_dataset

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink


class ParquetViews(Store):
    def __init__(self, definition: Definition, data_dir: Path) -> None:
        super().__init__(definition, data_dir)
        self._versions = _Tables(definition, Path(definition.at or data_dir / "parquet"))

    def check(self) -> None:
        check_options(self.definition, "partition_by")
        self._versions.check()

    def sink(self, version: int) -> Sink:
        from headrace.pipeline.sinks.parquet import Parquet

        return Parquet(
            self.definition.physical(version),
            key=self.definition.key,
            at=self._versions.path(version),
            partition_by=column_option(self.definition, "partition_by"),
        )

    def versions(self) -> list[int]:
        return self._versions.versions()

    def served(self) -> int | None:
        return self._versions.served()

    def switch(self, version: int) -> None:
        self._versions.switch(version)

    def drop(self, version: int) -> None:
        self._versions.drop(version)

    def drop_view(self) -> None:
        self._versions.drop_view()

    def count(self, version: int) -> int:
        return self.reader(version).count()

    def sample(self, version: int, limit: int) -> list[dict[str, Any]]:
        return self.reader(version).sample(limit)

    def reader(self, version: int) -> ParquetReader:
        return ParquetReader(self._versions, version)

    def close(self) -> None:
        pass


class _Tables(FolderVersions):
    """A version is a link to its newest snapshot, and the folder of its snapshots beside it."""

    def _delete(self, version: int) -> None:
        path = self.path(version)
        path.unlink(missing_ok=True)
        shutil.rmtree(snapshots_folder(path), ignore_errors=True)

    def _version(self, name: str) -> int | None:
        """Also of a table that has no snapshot yet."""
        found = re.fullmatch(r"\.(.+)\.snapshots", name)
        return super()._version(found[1] if found else name)


class ParquetReader(FilesReader):
    def __init__(self, versions: FolderVersions, version: int) -> None:
        super().__init__(versions, version)
        self._pinned: Path | None = None
        with self.reading():
            self._snapshot()

    def columns(self) -> Sequence[str]:
        with self.reading():
            return list(read_schema(self._snapshot()).names)

    def types(self) -> Mapping[str, str]:
        with self.reading():
            return {field.name: str(field.type) for field in read_schema(self._snapshot())}

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        before = self._pinned
        with self.reading():
            self._pinned = self._snapshot()
        try:
            yield
        finally:
            self._pinned = before

    def position(self) -> Position | None:
        with self.reading():
            fences = read_description(self._snapshot()).fences.values()
        return Position.merged(Position.from_fence(each.ends).offsets for each in fences) if fences else None

    def get(self, key: Row) -> dict[str, Any] | None:
        with self.reading():
            dataset = open_dataset(self._snapshot())
            values = self.key_values(key, dataset.schema)
            is_key = functools.reduce(operator.and_, (pc.field(name) == values[name] for name in values))
            found = dataset.to_table(filter=is_key)
        rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="strict")
        return rows[0] if rows else None

    def select(self, selection: Selection) -> list[dict[str, Any]]:
        with self.reading():
            return select_from_dataset(open_dataset(self._snapshot()), selection)

    def count(self) -> int:
        with self.reading():
            return int(open_dataset(self._snapshot()).count_rows())

    def sample(self, limit: int) -> list[dict[str, Any]]:
        """Rows at equal distances."""
        with self.reading():
            dataset = open_dataset(self._snapshot())
            total = int(dataset.count_rows())
            wanted = min(limit, total)
            places = pa.array([place * total // wanted for place in range(wanted)], pa.int64())
            found: list[dict[str, Any]] = dataset.take(places).to_pylist(maps_as_pydicts="strict")
            return found

    def _snapshot(self) -> Path:
        if self._pinned is not None:
            return self._pinned
        found = newest_snapshot(Path(self._versions.path(self._version)))
        if found is None:
            raise self._versions.gone(self._version)
        return found
