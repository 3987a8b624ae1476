"""`Search`: a full-text index, embedded (tantivy), that can be searched while a job writes it.

The fence is a document of the index itself, replaced in the commit that publishes a batch's documents. So a batch is
there with its fence, or not at all. `search_layout.py` turns rows into documents, `search_reader.py` searches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow

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
from headrace.pipeline.sinks.sink import Refuse, RefusedRow, Sink, SinkWriter, check_folder_name

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _names(self.key))
        object.__setattr__(self, "exact", _names(self.exact))
        check_folder_name("an index", self.name)
        if self.heap_bytes < HEAP_BYTES_MIN:
            raise BadSink(f"heap_bytes={self.heap_bytes} is too small", hint=f"at least {HEAP_BYTES_MIN}")

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """From the options of a Spark writer."""
        from headrace.pipeline.sinks.options import name_in, read_options

        found = read_options(
            "search",
            options,
            texts=("name", "at", "order_by"),
            lists=("key", "exact"),
            numbers=("heap_bytes",),
        )
        return cls(name_in("search", found), **found)

    @property
    def folder(self) -> Path:
        from headrace.pipeline.spark.session import data_dir

        return Path(self.at) if self.at is not None else data_dir() / "search" / self.name

    def target(self) -> str:
        return f"search {self.name}"

    def reader(self) -> SearchReader:
        """For searching, in this process or any other."""
        return SearchReader(self.folder)

    def open(self, job: str, schema: StructType) -> SinkWriter:
        from pyspark.sql.pandas.types import to_arrow_schema

        arrow = to_arrow_schema(schema, timezone="UTC")
        layout = layout_of(
            arrow, stored=changes.stored_columns(arrow), key=tuple(self.key), exact=tuple(self.exact)
        )
        return _SearchWriter(
            job, layout, _OpenIndex.shared(self.folder, layout, self.heap_bytes), self.order_by
        )


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
        import tantivy

        self.folder = folder
        self.layout = layout
        self.lock = threading.Lock()
        self.users = 0
        if folder.is_dir() and tantivy.Index.exists(str(folder)):
            _check_layout(folder, read_layout(folder), layout)
        else:
            write_layout(folder, layout)
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
        names, which tantivy refuses."""
        self.writer.garbage_collect_files()

    def release(self) -> None:
        with self._all_lock:
            self.users -= 1
            if self.users == 0:
                del self._all[self.folder]
                self.writer.wait_merging_threads()  # also gives up the lock on the folder


def _check_layout(folder: Path, there: Layout | None, wanted: Layout) -> None:
    if there is None:
        raise BadSink(
            f"the index in {folder} was not made by Headrace", hint="give this one another folder with at="
        )
    if there == wanted:
        return
    before = {column.name: column for column in there.columns}
    after = {column.name: column for column in wanted.columns}
    differences = [f"+{name}" for name in after.keys() - before.keys()]
    differences += [f"-{name}" for name in before.keys() - after.keys()]
    differences += [name for name in before.keys() & after.keys() if before[name] != after[name]]
    if there.key != wanted.key:
        differences.append(f"key {', '.join(there.key)} -> {', '.join(wanted.key)}")
    if not differences:
        return  # the order of columns does not matter
    raise BadSink(
        f"the index in {folder} has other columns: {', '.join(sorted(differences))}",
        hint="an index can't change its columns; build one of another name from the start of the topic",
    )


class _SearchWriter(SinkWriter):
    def __init__(self, job: str, layout: Layout, open_index: _OpenIndex, order_by: str | None) -> None:
        self._job = job
        self._layout = layout
        self._open = open_index
        self._order_by = order_by

    def applied(self) -> Fence | None:
        import tantivy

        self._open.index.reload()
        searcher = self._open.index.searcher()
        query = tantivy.Query.term_query(self._open.schema, JOB_FIELD, self._job, index_option="basic")
        hits = searcher.search(query, limit=1, count=False).hits
        if not hits:
            return None
        return Fence.from_json(bytes(searcher.doc(hits[0][1])[FENCE_FIELD][0]).decode())

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, refuse: Refuse) -> int:
        with self._open.lock:
            applied = self.applied()
            if applied is not None and applied.covers(fence):
                return 0
            try:
                written, refused = self._stage(rows)
                self._stage_fence(fence)
                if refused:
                    refuse(refused)
                self._open.writer.commit()
            except BaseException:
                self._open.roll_back()
                raise
            return written

    def _stage(self, rows: Iterable[pyarrow.RecordBatch]) -> tuple[int, list[RefusedRow]]:
        batches = list(rows)
        if not batches:
            return 0, []
        table = pyarrow.Table.from_batches(batches)
        if not self._layout.key:
            return self._add(table)
        table, refused = _without_bad_keys(table, self._layout.key)
        collapsed = changes.collapse(table, key=self._layout.key, order_by=self._order_by)
        for row in collapsed.deletes.to_pylist():
            self._open.writer.delete_documents_by_term(KEY_FIELD, key_text(row, self._layout.key))
        written, refused_too = self._add(collapsed.upserts)
        return written + collapsed.deletes.num_rows, refused + refused_too

    def _add(self, table: pyarrow.Table) -> tuple[int, list[RefusedRow]]:
        import tantivy

        refused: list[RefusedRow] = []
        for row in table.to_pylist(maps_as_pydicts="strict"):
            try:
                fields = document_fields(row, self._layout)
                document = tantivy.Document.from_dict(fields, self._open.schema)
            except (ValueError, OverflowError) as error:
                refused.append(RefusedRow(row=row, reason=str(error)))
                continue
            if self._layout.key:
                self._open.writer.delete_documents_by_term(KEY_FIELD, fields[KEY_FIELD])
            self._open.writer.add_document(document)
        return table.num_rows - len(refused), refused

    def _stage_fence(self, fence: Fence) -> None:
        import tantivy

        self._open.writer.delete_documents_by_term(JOB_FIELD, self._job)
        fields = {JOB_FIELD: self._job, MARK_FIELD: FENCE_MARK, FENCE_FIELD: fence.to_json().encode()}
        self._open.writer.add_document(tantivy.Document.from_dict(fields, self._open.schema))

    def clear(self) -> None:
        with self._open.lock:
            self._open.writer.delete_all_documents()
            self._open.writer.commit()

    def close(self) -> None:
        self._open.release()


def _without_bad_keys(table: pyarrow.Table, key: Sequence[str]) -> tuple[pyarrow.Table, list[RefusedRow]]:
    """Without the rows that can never be found again: a key that is null, or longer than an index can hold."""
    reasons: dict[int, str] = {}
    for position, row in enumerate(table.select(list(key)).to_pylist()):
        if any(each is None for each in row.values()):
            reasons[position] = f"its key ({', '.join(key)}) is null"
        elif len(key_text(row, key).encode()) > TERM_BYTES_MAX:
            reasons[position] = f"its key ({', '.join(key)}) is longer than {TERM_BYTES_MAX} bytes"
    if not reasons:
        return table, []
    refused = [
        RefusedRow(row=table.slice(position, 1).to_pylist()[0], reason=reason)
        for position, reason in reasons.items()
    ]
    kept = [position for position in range(table.num_rows) if position not in reasons]
    return table.take(pyarrow.array(kept, pyarrow.int64())), refused


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
