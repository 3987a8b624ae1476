"""A full-text index that the sink `Search` wrote. A deleted document stays in its segment until that is rewritten.

tantivy offers no forced merge, so the index is written again from the rows that it stores, in one commit.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import tantivy

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.subject import Subject
from headrace.pipeline.sinks.search_layout import (
    FENCE_FIELD,
    FENCE_MARK,
    JOB_FIELD,
    MARK_FIELD,
    ROW_FIELD,
    Layout,
    document_fields,
    read_layout,
    row_of_document,
    tantivy_schema,
)

HEAP_BYTES = 64_000_000
PAGE_DOCUMENTS = 10_000


class SearchIndex:
    def __init__(self, folder: Path, column: str) -> None:
        layout = read_layout(folder) if folder.is_dir() else None
        if layout is None or not tantivy.Index.exists(str(folder)):
            raise BadErasure(f"there is no index in {folder}", hint="name the folder of a `Search` sink")
        if column not in (each.name for each in layout.columns):
            raise BadErasure(f"the index in {folder} has no column {column}", hint="name one of its columns")
        self.name = f"search {folder} {column}"
        self._folder = folder
        self._column = column
        self._layout: Layout = layout

    def remaining(self, subject: Subject) -> int:
        """Documents of the person, and all deleted ones that a segment still has: nobody can tell whose they are."""
        index = self._open()
        own = sum(self._is_own(fields, subject) for fields in self._documents(index.searcher()))
        return own + self._deleted_documents()

    def erase(self, subject: Subject) -> None:
        index = self._open()
        schema = tantivy_schema(self._layout)
        with self._writer(index) as writer:
            searcher = index.searcher()
            writer.delete_all_documents()
            for fields in self._documents(searcher):
                if not self._is_own(fields, subject):
                    writer.add_document(tantivy.Document.from_dict(self._again(fields), schema))
            writer.commit()
            writer.garbage_collect_files()

    def _open(self) -> Any:
        return tantivy.Index(tantivy_schema(self._layout), path=str(self._folder))

    @contextlib.contextmanager
    def _writer(self, index: Any) -> Iterator[Any]:
        try:
            writer = index.writer(HEAP_BYTES, 1)
        except ValueError as error:
            raise ErasureInterrupted(
                f"{self.name} can't be written now: {error}",
                hint="stop the job that writes it; it continues from its checkpoint afterwards",
            ) from error
        try:
            yield writer
        except BaseException:
            writer.rollback()
            raise
        finally:
            writer.wait_merging_threads()

    def _documents(self, searcher: Any) -> Iterator[dict[str, list[Any]]]:
        """All documents, the fences of jobs too, a page at a time."""
        for offset in range(0, searcher.num_docs, PAGE_DOCUMENTS):
            hits = searcher.search(
                tantivy.Query.all_query(), limit=PAGE_DOCUMENTS, offset=offset, count=False
            ).hits
            for _, address in hits:
                yield searcher.doc(address).to_dict()

    def _is_own(self, fields: dict[str, list[Any]], subject: Subject) -> bool:
        if ROW_FIELD not in fields:
            return False
        found = row_of_document(fields, self._layout)[self._column]
        wanted = subject.column(self._column)
        return wanted in (found if isinstance(found, str) else str(found), json.dumps(found, default=str))

    def _again(self, fields: dict[str, list[Any]]) -> dict[str, Any]:
        """The fields of a document, of which only the row, or the fence, is stored."""
        if ROW_FIELD in fields:
            return document_fields(row_of_document(fields, self._layout), self._layout)
        fence = bytes(fields[FENCE_FIELD][0])
        return {JOB_FIELD: json.loads(fence)["job"], MARK_FIELD: FENCE_MARK, FENCE_FIELD: fence}

    def _deleted_documents(self) -> int:
        meta = msgspec.json.decode((self._folder / "meta.json").read_bytes())
        return sum((each.get("deletes") or {}).get("num_deleted_docs", 0) for each in meta["segments"])
