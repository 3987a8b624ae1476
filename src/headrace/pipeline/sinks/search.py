"""`Search`: a full-text index, embedded (tantivy), that can be searched while a job writes it.

The fence is a document of the index itself, replaced in the commit that publishes a batch's documents. So a batch is
there with its fence, or not at all. `search_layout.py` turns rows into documents, `search_reader.py` searches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow
import tantivy
from msgspec.structs import replace
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import changes
from headrace.pipeline.sinks.search_layout import (
    FENCE_FIELD,
    FENCE_MARK,
    JOB_FIELD,
    KEY_FIELD,
    MARK_FIELD,
    TERM_BYTES_MAX,
    Layout,
    document_fields,
    key_text,
    layout_of,
    read_layout,
    tantivy_schema,
    write_layout,
)
from headrace.pipeline.sinks.search_reader import SearchReader
from headrace.pipeline.sinks.sink import Reject, RejectedRow, Sink, SinkWriter, check_folder_name
from headrace.pipeline.spark.session import data_dir

HEAP_BYTES_MIN = 15_000_000
"""The minimum of tantivy for one thread."""

WRITER_THREADS = 1
"""Spark has the other cores; documents of one batch are seldom worth more."""


@dataclass(frozen=True, slots=True)
class Search(Sink):
    """Documents by key, or without one each row a new document.

    Text columns are split into words; columns of the key, and those in `exact`, are found as a whole.
    """

    name: str
    _: KW_ONLY
    key: str | Sequence[str] = ()
    at: str | Path | None = None
    """The folder; `search/NAME` in the data folder by default."""
    exact: str | Sequence[str] = ()
    order_by: str | None = None
    """The column that orders the rows of a key within a batch: the row with the greatest value is written."""
    heap_bytes: int = 64_000_000
    """Memory for documents that are not on disk yet; when it is full they are written, and stay unpublished."""

    kind: ClassVar[str] = "search"
    is_folder: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_names("key", "exact")
        check_folder_name("an index", self.name)
        if self.heap_bytes < HEAP_BYTES_MIN:
            raise BadSink(f"heap_bytes={self.heap_bytes} is too small", hint=f"at least {HEAP_BYTES_MIN}")

    @property
    def folder(self) -> Path:
        return Path(self.at) if self.at is not None else data_dir() / "search" / self.name

    def target(self) -> str:
        return f"search {self.name}"

    def reader(self) -> SearchReader:
        """For searching, in this process or any other."""
        return SearchReader(self.folder)

    def open(self, job: str, schema: StructType) -> SinkWriter:
        arrow = to_arrow_schema(schema, timezone="UTC")
        stored = pyarrow.schema([arrow.field(name) for name in changes.stored_columns(arrow)])
        self.check_columns((*self.key, *self.exact), stored.names)
        self.check_columns((self.order_by,), arrow.names)
        layout = layout_of(stored, key=tuple(self.key), exact=self.exact)
        return _SearchWriter(job, _OpenIndex.shared(self.folder, layout, self.heap_bytes), self.order_by)


class _OpenIndex:
    """An index has one writer. The jobs of a process that write the same index share it, one batch at a time."""

    _all: ClassVar[dict[Path, _OpenIndex]] = {}
    _all_lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def shared(cls, folder: Path, layout: Layout, heap_bytes: int) -> _OpenIndex:
        place = folder.resolve()
        with cls._all_lock:
            there = cls._all.get(place)
            if there is None:
                there = cls._all[place] = cls(place, layout, heap_bytes)
            _check_layout(place, there.layout, layout)
            there.users += 1
            return there

    def __init__(self, folder: Path, layout: Layout, heap_bytes: int) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.users = 0
        if folder.is_dir() and tantivy.Index.exists(str(folder)):
            layout = _check_layout(folder, read_layout(folder), layout)
        else:
            write_layout(folder, layout)
        self.layout = layout
        self.schema = tantivy_schema(layout)
        self.index = tantivy.Index(self.schema, path=str(folder))
        self.index.config_reader("manual")
        try:
            self.writer = self.index.writer(heap_bytes, WRITER_THREADS)
        except ValueError as error:
            raise SinkUnavailable(
                f"the index in {folder} can't be written now: {error}",
                hint="one process at a time can write an index; stop the other one",
            ) from error
        self._forget_unpublished()

    def roll_back(self) -> None:
        self.writer.rollback()
        self._forget_unpublished()

    def _forget_unpublished(self) -> None:
        """Files of a commit that was not completed. The next one would have the same number and give them the same
        names, which tantivy rejects."""
        self.writer.garbage_collect_files()

    def release(self) -> None:
        with self._all_lock:
            self.users -= 1
            if self.users == 0:
                del self._all[self.folder]
                self.writer.wait_merging_threads()  # also releases the lock on the folder


def _check_layout(folder: Path, there: Layout | None, wanted: Layout) -> Layout:
    """The layout of the index, whose columns may have another order than those of the rows."""
    if there is None:
        raise BadSink(
            f"the index in {folder} was not created by Headrace", hint="give this one another folder with at="
        )
    before = {column.name: replace(column, is_counted=False) for column in there.columns}
    after = {column.name: replace(column, is_counted=False) for column in wanted.columns}
    differences = [f"+{name}" for name in after.keys() - before.keys()]
    differences += [f"-{name}" for name in before.keys() - after.keys()]
    differences += [name for name in before.keys() & after.keys() if before[name] != after[name]]
    if there.key != wanted.key:
        differences.append(f"key {', '.join(there.key)} -> {', '.join(wanted.key)}")
    if differences:
        raise BadSink(
            f"the index in {folder} has other columns: {', '.join(sorted(differences))}",
            hint="an index can't change its columns; build one of another name from the start of the topic",
        )
    return there


class _SearchWriter(SinkWriter):
    def __init__(self, job: str, open_index: _OpenIndex, order_by: str | None) -> None:
        self._job = job
        self._layout = open_index.layout
        self._open = open_index
        self._order_by = order_by

    def applied(self) -> Fence | None:
        self._open.index.reload()
        searcher = self._open.index.searcher()
        query = tantivy.Query.term_query(self._open.schema, JOB_FIELD, self._job, index_option="basic")
        hits = searcher.search(query, limit=1, count=False).hits
        if not hits:
            return None
        return Fence.from_json(bytes(searcher.doc(hits[0][1])[FENCE_FIELD][0]).decode())

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        with self._open.lock:
            applied = self.applied()
            if applied is not None and applied.covers(fence):
                return 0
            try:
                written, rejected = self._stage(rows)
                self._stage_fence(fence)
                if rejected:
                    reject(rejected)
                self._open.writer.commit()
            except BaseException:
                self._open.roll_back()
                raise
            return written

    def _stage(self, rows: Iterable[pyarrow.RecordBatch]) -> tuple[int, list[RejectedRow]]:
        table = changes.table_of(rows)
        if table is None:
            return 0, []
        if not self._layout.key:
            return self._add(table)
        table, rejected = _without_bad_keys(table, self._layout.key)
        collapsed = changes.collapse(table, key=self._layout.key, order_by=self._order_by)
        for row in collapsed.deletes.to_pylist():
            self._open.writer.delete_documents_by_term(KEY_FIELD, key_text(row, self._layout.key))
        written, rejected_too = self._add(collapsed.upserts)
        return written + collapsed.deletes.num_rows, rejected + rejected_too

    def _add(self, table: pyarrow.Table) -> tuple[int, list[RejectedRow]]:
        rejected: list[RejectedRow] = []
        for row in table.to_pylist(maps_as_pydicts="strict"):
            try:
                fields = document_fields(row, self._layout)
                document = tantivy.Document.from_dict(fields, self._open.schema)
            except (ValueError, OverflowError) as error:
                rejected.append(RejectedRow(row=row, reason=str(error)))
                continue
            if self._layout.key:
                self._open.writer.delete_documents_by_term(KEY_FIELD, fields[KEY_FIELD])
            self._open.writer.add_document(document)
        return table.num_rows - len(rejected), rejected

    def _stage_fence(self, fence: Fence) -> None:
        self._open.writer.delete_documents_by_term(JOB_FIELD, self._job)
        fields = {JOB_FIELD: self._job, MARK_FIELD: FENCE_MARK, FENCE_FIELD: fence.to_json().encode()}
        self._open.writer.add_document(tantivy.Document.from_dict(fields, self._open.schema))

    def clear(self) -> None:
        with self._open.lock:
            self._open.writer.delete_all_documents()
            self._open.writer.commit()

    def close(self) -> None:
        self._open.release()


def _without_bad_keys(table: pyarrow.Table, key: Sequence[str]) -> tuple[pyarrow.Table, list[RejectedRow]]:
    """Without the rows that can never be found again: a key that is null, or longer than an index can hold."""
    table, rejected = changes.without_null_keys(table, key)
    sizes = [len(key_text(row, key).encode()) for row in table.select(list(key)).to_pylist()]
    is_too_long = pyarrow.array([size > TERM_BYTES_MAX for size in sizes], pyarrow.bool_())
    reason = f"its key ({', '.join(key)}) is longer than {TERM_BYTES_MAX} bytes"
    table, too_long = changes.without_bad(table, is_too_long, reason)
    return table, rejected + too_long
