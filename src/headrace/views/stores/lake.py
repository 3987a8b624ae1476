"""Views as Delta tables, in a folder or at an address such as `s3://bucket/views`.

Options: `partition_by`, columns with commas; `storage.NAME`, an option of delta-rs such as `storage.aws_region`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from headrace.conditions.expression import Call, Column, Literal, written
from headrace.kafka.position import Position
from headrace.pipeline.sinks.delta_fences import newest_fences
from headrace.views.definition import Definition, Row
from headrace.views.query.literals import literal_of
from headrace.views.query.sql import DUCKDB, Sql, rendered
from headrace.views.selection import Selection
from headrace.views.store import Store
from headrace.views.stores.address_versions import AddressVersions
from headrace.views.stores.files_reader import FilesReader
from headrace.views.stores.folder_versions import FolderVersions
from headrace.views.stores.options import check_options, column_option
from headrace.views.stores.row_selection import kinds_of

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink

STORAGE = "storage."

_TABLE = "headrace_rows"


class LakeViews(Store):
    def __init__(self, definition: Definition, data_dir: Path) -> None:
        super().__init__(definition, data_dir)
        self._options = {
            name.removeprefix(STORAGE): text
            for name, text in definition.options.items()
            if name.startswith(STORAGE)
        }
        self._versions: FolderVersions | AddressVersions
        if "://" in definition.at:
            self._versions = AddressVersions(definition, definition.at, self._options)
        else:
            self._versions = FolderVersions(definition, Path(definition.at or data_dir / "delta"))

    def check(self) -> None:
        check_options(self.definition, "partition_by", prefix=STORAGE)
        self._versions.check()

    def sink(self, version: int) -> Sink:
        from headrace.pipeline.sinks.delta import Delta

        return Delta(
            self.definition.physical(version),
            key=self.definition.key,
            at=self._versions.path(version),
            partition_by=column_option(self.definition, "partition_by"),
            storage_options=self._options,
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

    def reader(self, version: int) -> LakeReader:
        return LakeReader(self._versions, version, self._options)

    def close(self) -> None:
        pass


class LakeReader(FilesReader):
    """Queries run in delta-rs, which reads only the files that can have matching rows."""

    def __init__(
        self, versions: FolderVersions | AddressVersions, version: int, options: dict[str, str]
    ) -> None:
        super().__init__(versions, version)
        with self.reading():
            self._table = DeltaTable(str(versions.path(version)), storage_options=options)

    def columns(self) -> Sequence[str]:
        with self.reading():
            return list(self._schema().names)

    def types(self) -> Mapping[str, str]:
        with self.reading():
            return {field.name: str(field.type) for field in self._schema()}

    def position(self) -> Position | None:
        with self.reading():
            self._table.update_incremental()
            fences = newest_fences(self._table)
        return Position.merged(Position.from_fence(each.ends).offsets for each in fences) if fences else None

    def get(self, key: Row) -> dict[str, Any] | None:
        with self.reading():
            values = self.key_values(key, self._schema())
            if any(value.as_py() is None for value in values.values()):
                return None
            is_key = [
                Call("=", (Column(name), literal_of(name, value.as_py()))) for name, value in values.items()
            ]
            rows = self._selected(Selection(where=" AND ".join(map(written, is_key)), limit=1))
        return rows[0] if rows else None

    def select(self, selection: Selection) -> list[dict[str, Any]]:
        with self.reading():
            return self._selected(selection)

    def count(self) -> int:
        with self.reading():
            return int(self._rows(f"SELECT count(*) AS n FROM {_TABLE}")[0]["n"])

    def sample(self, limit: int) -> list[dict[str, Any]]:
        with self.reading():
            return self._rows(f"SELECT * FROM {_TABLE} ORDER BY random() LIMIT {int(limit)}")

    def _selected(self, selection: Selection) -> list[dict[str, Any]]:
        sql = rendered(selection, DUCKDB, kinds_of(self._schema()))
        return self._rows(f"SELECT * FROM {_TABLE} {_with_values(sql)}")

    def _rows(self, statement: str) -> list[dict[str, Any]]:
        self._table.update_incremental()
        found = pa.table(QueryBuilder().register(_TABLE, self._table).execute(statement))
        rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="strict")
        return rows

    def _schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())


_PLACEHOLDER = re.compile(r'"(?:[^"]|"")*"|\?')


def _with_values(sql: Sql) -> str:
    """The SQL of DuckDB with the values in it: delta-rs has no parameters. Names are quoted, and texts are values."""
    values = iter(sql.values)
    return _PLACEHOLDER.sub(
        lambda found: written(Literal(next(values))) if found[0] == "?" else found[0], sql.text
    )
