"""A Delta table in a folder. Deleting rows writes new files; the old ones, and the log with their statistics, stay.

So the old files are vacuumed without the usual delay, and the log is replaced by a checkpoint. Older versions of the
table cannot be read any more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.subject import Subject

_LOG_RETENTION = "delta.logRetentionDuration"
_LOG_RETENTION_DEFAULT = "interval 30 days"

OWN_METADATA = "headrace"
"""Metadata of commits that begins with this, such as the fences of jobs, is carried on."""


class DeltaFolder:
    def __init__(self, folder: Path, column: str) -> None:
        self.name = f"delta {folder} {column}"
        self._folder = folder
        self._column = column

    def remaining(self, subject: Subject) -> int:
        """Rows of the current version, and of files that are no longer part of it but are still there."""
        table = self._open()
        old = table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
        paths = [*table.file_uris(), *(str(self._folder / each) for each in old)]
        return sum(self._rows_in(Path(each.removeprefix("file://")), subject) for each in paths)

    def erase(self, subject: Subject) -> None:
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError

        table = self._open()
        newest: dict[str, Any] = next(iter(table.history(1)), {})
        own = {name: str(each) for name, each in newest.items() if name.startswith(OWN_METADATA)}
        properties = CommitProperties(custom_metadata=own)
        try:
            if self._rows_now(table, subject):
                table.delete(self._predicate(subject), commit_properties=properties)
            table.vacuum(
                retention_hours=0,
                dry_run=False,
                enforce_retention_duration=False,
                commit_properties=properties,
            )
            self._cut_log(table, properties)
        except CommitFailedError as error:
            raise ErasureInterrupted(
                f"{self.name}: a writer changed the table at the same time: {error}",
                hint="`headrace erase continue` with the same --place tries again",
            ) from error

    def _cut_log(self, table: Any, properties: Any) -> None:
        """The log has the smallest and largest values of each file, and the predicate of the deletion."""
        before = table.metadata().configuration.get(_LOG_RETENTION, _LOG_RETENTION_DEFAULT)
        for retention in ("interval 0 seconds", before):
            table.alter.set_table_properties({_LOG_RETENTION: retention}, commit_properties=properties)
            table.create_checkpoint()
            if retention != before:
                table.cleanup_metadata()

    def _open(self) -> Any:
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise BadErasure(
                f"Delta tables need deltalake: {error}", hint="pip install 'headrace[spark]'"
            ) from error
        if not DeltaTable.is_deltatable(str(self._folder)):
            raise BadErasure(
                f"there is no Delta table in {self._folder}", hint="name the folder of the table"
            )
        table = DeltaTable(str(self._folder))
        if self._column not in (each.name for each in table.schema().fields):
            raise BadErasure(f"{self.name}: there is no such column", hint="name a column of the table")
        return table

    def _predicate(self, subject: Subject) -> str:
        text = subject.column(self._column).replace("'", "''")
        column = self._column.replace('"', '""')
        return f"CAST(\"{column}\" AS VARCHAR) = '{text}'"

    def _rows_now(self, table: Any, subject: Subject) -> int:
        paths = (Path(each.removeprefix("file://")) for each in table.file_uris())
        return sum(self._rows_in(each, subject) for each in paths)

    def _rows_in(self, path: Path, subject: Subject) -> int:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        if not path.exists():
            return 0  # removed by a vacuum of another process since it was listed
        file = pq.ParquetFile(path)
        if self._column not in file.schema_arrow.names:
            # A column by which the table is partitioned is in the path.
            return (
                file.metadata.num_rows
                if f"{self._column}={subject.column(self._column)}" in path.parts
                else 0
            )
        wanted = subject.column(self._column)
        return sum(
            int(pc.sum(pc.equal(batch.column(0).cast("string"), wanted)).as_py() or 0)
            for batch in file.iter_batches(columns=[self._column])
        )
