"""`Delta`: a Delta table (delta-rs, no JVM) that Spark, DuckDB and everything else that reads Delta can read.

A batch is one commit of the table's log. The commit contains a Delta application transaction with the checkpoint and
the number of the batch: a batch that is repeated is recognised by it. The whole fence, with source offsets, is in the
description of the commit. Compaction runs beside the batches, in `delta_upkeep.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pyarrow

from headrace.pipeline.errors import BadJob, BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import changes
from headrace.pipeline.sinks.delta_upkeep import DeltaUpkeep
from headrace.pipeline.sinks.sink import (
    OutputMode,
    Refuse,
    RefusedRow,
    Sink,
    SinkWriter,
    check_folder_name,
    check_one_of,
)

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from pyspark.sql.types import StructType

DeltaMode = Literal["append", "upsert", "replace"]

FENCES = "headrace.fences"
"""The field of a commit's description with the fences of all jobs, so that the newest commit is enough to find them."""

FORGOTTEN = -1
"""A transaction's number after `clear`: Delta can't remove one."""

COMMIT_TRIES_MAX = 10
"""A commit can lose against compaction or another writer; then it is done again on the newer table."""

HISTORY_COMMITS_MAX = 1_000
"""How far back a fence is looked for. All commits of Headrace carry it; these are others' in a row."""

_IS_GONE = "headrace_is_gone"


@dataclass(frozen=True, slots=True)
class Delta(Sink):
    """Rows are appended; with a `key` they replace and delete; with `mode="replace"` each batch is the whole table."""

    name: str
    _: KW_ONLY
    key: str | Sequence[str] = ()
    mode: DeltaMode | None = None
    """`append`, `upsert` or `replace`; by default `upsert` if there is a key, and `append` if not."""
    at: str | Path | None = None
    """Folder or address (`s3://bucket/path`); `delta/NAME` in the data folder by default."""
    partition_by: str | Sequence[str] = ()
    order_by: str | None = None
    """The column that orders the rows of a key within a batch: the row with the greatest value is written."""
    compact_files: int = 32
    """The number of small files that starts a compaction. 0: never."""
    file_bytes: int = 128 * 1024 * 1024
    """The size of compacted files. Files of at least half this size are not compacted. 128 MiB suits most readers."""
    keep_hours: int = 7 * 24
    """How long files that are no longer part of the table are kept, for readers of older versions."""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of delta-rs for an address, such as credentials."""

    kind: ClassVar[str] = "delta"

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _names(self.key))
        object.__setattr__(self, "partition_by", _names(self.partition_by))
        if not self.mode:
            object.__setattr__(self, "mode", "upsert" if self.key else "append")
        check_one_of("mode", self.mode, DeltaMode)
        if (self.mode == "upsert") != bool(self.key):
            raise BadSink(
                f"mode={self.mode!r} does not go with key={list(self.key)}",
                hint="an upsert needs a key, and the other modes have no use for one",
            )
        check_folder_name("a table", self.name)
        if self.compact_files < 0 or self.file_bytes <= 0 or self.keep_hours < 0:
            raise BadSink("compact_files, file_bytes and keep_hours can't be negative", hint="0 files: never")

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """From the options of a Spark writer; those that begin with `storage.` are for the storage."""
        from headrace.pipeline.sinks.options import name_in, read_options

        storage = {
            name.partition(".")[2]: text
            for name, text in options.items()
            if name.lower().startswith("storage.")
        }
        found = read_options(
            "delta",
            {name: text for name, text in options.items() if not name.lower().startswith("storage.")},
            texts=("name", "at", "mode", "order_by"),
            lists=("key", "partition_by"),
            numbers=("compact_files", "file_bytes", "keep_hours"),
        )
        return cls(name_in("delta", found), **found, storage_options=storage)

    @property
    def address(self) -> str:
        from headrace.pipeline.spark.session import data_dir

        return str(self.at) if self.at is not None else str(data_dir() / "delta" / self.name)

    def target(self) -> str:
        return f"delta {self.name}"

    def output_mode(self, *, aggregated: bool, watermarked: bool) -> OutputMode:
        if self.mode == "replace" and aggregated:
            return "complete"
        return Sink.output_mode(self, aggregated=aggregated, watermarked=watermarked)

    def table(self) -> DeltaTable:
        """The table as it is now: `.to_pyarrow_dataset()`, `.file_uris()`, `.version()`, `.history()` and so on."""
        from deltalake import DeltaTable

        return DeltaTable(self.address, storage_options=dict(self.storage_options))

    def open(self, job: str, schema: StructType) -> SinkWriter:
        from pyspark.sql.pandas.types import to_arrow_schema

        arrow = to_arrow_schema(schema, timezone="UTC")
        wanted = pyarrow.schema([arrow.field(name) for name in changes.stored_columns(arrow)])
        _check_types(wanted)
        for name in (*self.key, *self.partition_by):
            if name not in wanted.names:
                raise BadSink(
                    f"there is no column {name!r}", hint=f"the columns are: {', '.join(wanted.names)}"
                )
        return _DeltaWriter(self, job, _open_table(self, wanted))


def _check_types(wanted: pyarrow.Schema) -> None:
    from deltalake import Schema

    for column in wanted:
        try:
            if not pyarrow.types.is_null(column.type):
                Schema.from_arrow(pyarrow.schema([column]))
                continue
        except Exception as error:  # delta-rs raises nothing more special
            raise _no_such_type(column) from error
        raise _no_such_type(column)


def _no_such_type(column: pyarrow.Field) -> BadSink:
    return BadSink(
        f"a Delta table can't have the column {column.name!r} of type {column.type}",
        hint="cast it, or select it away",
    )


def _open_table(sink: Delta, wanted: pyarrow.Schema) -> DeltaTable:
    """The table with these columns: made if it is missing, widened if columns are new."""
    from deltalake import DeltaTable

    options = dict(sink.storage_options)
    if not DeltaTable.is_deltatable(sink.address, options):
        if "://" not in sink.address:
            Path(sink.address).mkdir(parents=True, exist_ok=True)
        return DeltaTable.create(
            sink.address,
            wanted,
            mode="ignore",
            partition_by=list(sink.partition_by),
            name=sink.name,
            storage_options=options,
        )
    table = sink.table()
    there = table.metadata().partition_columns
    if list(there) != list(sink.partition_by):
        raise BadSink(
            f"the table {sink.name} is partitioned by {', '.join(there) or 'nothing'}",
            hint="say the same in partition_by, or give the table another name",
        )
    _add_columns(sink, table, wanted)
    return table


def _add_columns(sink: Delta, table: DeltaTable, wanted: pyarrow.Schema) -> None:
    from deltalake import Schema

    before = {each.name: each for each in table.schema().fields}
    after = {each.name: each for each in Schema.from_arrow(wanted).fields}
    changed = [
        f"{name}: {before[name].type} -> {after[name].type}"
        for name in before.keys() & after.keys()
        if before[name].type != after[name].type
    ]
    changed += [f"{name} is gone" for name in before.keys() - after.keys()]
    if changed:
        raise BadSink(
            f"the table {sink.name} has other columns: {'; '.join(sorted(changed))}",
            hint="only new columns can be added; give the table another name, or cast them back",
        )
    new = [after[name] for name in wanted.names if name not in before]
    if new:
        table.alter.add_columns(new)


class _DeltaWriter(SinkWriter):
    def __init__(self, sink: Delta, job: str, table: DeltaTable) -> None:
        self._sink = sink
        self._job = job
        self._table = table
        self._fences = _newest_fences(table)
        self._upkeep = DeltaUpkeep(
            open_table=sink.table,
            describe=self._description,
            files_max=sink.compact_files,
            file_bytes=sink.file_bytes,
            keep_hours=sink.keep_hours,
        )

    def applied(self) -> Fence | None:
        self._table.update_incremental()
        return _kept_fence(self._table, self._job)

    def _has(self, fence: Fence) -> bool:
        number = self._table.transaction_version(_application(fence))
        return number is not None and number >= fence.batch_id

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, refuse: Refuse) -> int:
        from deltalake.exceptions import CommitFailedError

        batches = list(rows)
        table = pyarrow.Table.from_batches(batches) if batches else None
        refusals: list[RefusedRow] = []
        if table is not None and self._sink.key:
            table, refusals = _without_null_keys(table, self._sink.key)
        for _ in range(COMMIT_TRIES_MAX):
            self._table.update_incremental()
            if self._has(fence):
                return 0
            if refusals:
                refuse(refusals)
                refusals = []
            try:
                written = self._commit(table, fence)
            except CommitFailedError:
                continue
            self._fences[self._job] = fence
            self._upkeep.after_batch(self._table)
            return written
        raise SinkUnavailable(
            f"the table {self._sink.name} was changed by others {COMMIT_TRIES_MAX} times while a batch was written",
            hint="several writers of one table should append, or keep to partitions of their own",
        )

    def _commit(self, table: pyarrow.Table | None, fence: Fence) -> int:
        properties = self._properties(fence)
        if table is None or table.num_rows == 0:
            return self._write(
                self._empty(), "overwrite" if self._sink.mode == "replace" else "append", properties
            )
        if self._sink.mode == "upsert":
            return self._merge(
                changes.collapse(table, key=self._sink.key, order_by=self._sink.order_by), properties
            )
        stored = table.select(changes.stored_columns(table.schema))
        return self._write(stored, "overwrite" if self._sink.mode == "replace" else "append", properties)

    def _write(self, table: pyarrow.Table, mode: Any, properties: CommitProperties) -> int:
        from deltalake import write_deltalake

        write_deltalake(
            self._table,
            table,
            mode=mode,
            partition_by=list(self._sink.partition_by) or None,
            target_file_size=self._sink.file_bytes,
            commit_properties=properties,
        )
        return int(table.num_rows)

    def _merge(self, collapsed: changes.Changes, properties: CommitProperties) -> int:
        """Upserts and deletions in one commit, so in one source: a deletion is a row of nulls beside its key."""
        marked = [
            collapsed.upserts.append_column(_IS_GONE, pyarrow.repeat(False, collapsed.upserts.num_rows)),
            collapsed.deletes.append_column(_IS_GONE, pyarrow.repeat(True, collapsed.deletes.num_rows)),
        ]
        source = pyarrow.concat_tables(marked, promote_options="default")
        columns = {name: f"s.{_quoted(name)}" for name in collapsed.upserts.column_names}
        (
            self._table.merge(
                source,
                predicate=" AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in self._sink.key),
                source_alias="s",
                target_alias="t",
                commit_properties=properties,
            )
            .when_matched_delete(predicate=f"s.{_IS_GONE}")
            .when_matched_update(updates={_quoted(name): text for name, text in columns.items()})
            .when_not_matched_insert(
                updates={_quoted(name): text for name, text in columns.items()},
                predicate=f"NOT s.{_IS_GONE}",
            )
            .execute()
        )
        return int(source.num_rows)

    def _empty(self) -> pyarrow.Table:
        return pyarrow.schema(self._table.schema().to_arrow()).empty_table()

    def _properties(self, fence: Fence) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        return CommitProperties(
            custom_metadata=_describe({**self._fences, self._job: fence}),
            app_transactions=[Transaction(_application(fence), fence.batch_id)],
        )

    def _description(self) -> dict[str, str]:
        return _describe(self._fences)

    def clear(self) -> None:
        from deltalake import CommitProperties, Transaction

        self._table.update_incremental()
        forgotten = _kept_fence(self._table, self._job)
        self._fences.pop(self._job, None)
        transactions = [Transaction(_application(forgotten), FORGOTTEN)] if forgotten is not None else []
        self._table.delete(
            commit_properties=CommitProperties(
                custom_metadata=self._description(), app_transactions=transactions
            )
        )

    def close(self) -> None:
        self._upkeep.close()


def _application(fence: Fence) -> str:
    return f"headrace/{fence.job}/{fence.checkpoint}"


def _describe(fences: Mapping[str, Fence]) -> dict[str, str]:
    return {FENCES: json.dumps({job: fence.to_json() for job, fence in fences.items()})}


def _kept_fence(table: DeltaTable, job: str) -> Fence | None:
    """The last fence of a job, newest commits first.

    Two jobs that write the same table do not see each other's newest fence, and carry on an older one. So a fence
    counts only if it has the number that its transaction has.
    """
    for commit in table.history(HISTORY_COMMITS_MAX):
        fence = _read_fences(commit.get(FENCES, "{}")).get(job)
        if fence is not None and table.transaction_version(_application(fence)) == fence.batch_id:
            return fence
    return None


def _newest_fences(table: DeltaTable) -> dict[str, Fence]:
    """Those of all jobs, as the newest commit has them."""
    return _read_fences(next(iter(table.history(1)), {}).get(FENCES, "{}"))


def _read_fences(text: str) -> dict[str, Fence]:
    try:
        return {job: Fence.from_json(kept) for job, kept in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        raise BadJob(
            f"this is no list of fences: {text[:200]!r}", hint="somebody else wrote it into the table's log"
        ) from error


def _without_null_keys(table: pyarrow.Table, key: Sequence[str]) -> tuple[pyarrow.Table, list[RefusedRow]]:
    import pyarrow.compute

    is_null = table[key[0]].is_null()
    for name in key[1:]:
        is_null = pyarrow.compute.or_(is_null, table[name].is_null())
    bad = table.filter(is_null)
    if bad.num_rows == 0:
        return table, []
    reason = f"its key ({', '.join(key)}) is null"
    refused = [RefusedRow(row=row, reason=reason) for row in bad.to_pylist()]
    return table.filter(pyarrow.compute.invert(is_null)), refused


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
