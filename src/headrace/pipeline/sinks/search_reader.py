"""Searching an index, from any process, while a job writes it. A search sees all earlier commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tantivy
from msgspec import Struct

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.search_layout import (
    FENCE_MARK,
    KEY_FIELD,
    MARK_FIELD,
    key_text,
    read_layout,
    row_of_document,
)

HITS_MAX = 10_000
"""A search keeps its hits in memory; more than these are no longer read by a person."""


class Hit(Struct, frozen=True, kw_only=True):
    """A document that was found: its row, and how well it fits (higher is better)."""

    row: Mapping[str, Any]
    score: float


class SearchReader:
    """Reads the index in a folder.

        reader = Search("articles", key="id").reader()
        for hit in reader.search("kafka AND title:streams", limit=5):
            print(hit.score, hit.row["title"])

    Queries are tantivy's: words, "phrases", `column:word`, AND, OR, NOT, `size:[10 TO 20]`, `*`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        layout = read_layout(self.folder)
        if layout is None or not tantivy.Index.exists(str(self.folder)):
            raise BadSink(
                f"there is no index in {self.folder}", hint="the job that writes it creates it at its start"
            )
        self._layout = layout
        self._index = tantivy.Index.open(str(self.folder))
        self._index.config_reader("manual")

    def search(
        self, query: str, *, columns: Sequence[str] | None = None, limit: int = 10, offset: int = 0
    ) -> list[Hit]:
        """The best hits first. `columns` are those where words without a column are looked for: all text by default."""
        if not 0 < limit <= HITS_MAX:
            raise BadSink(f"limit={limit} is not possible", hint=f"set it from 1 to {HITS_MAX}")
        searcher = self._searcher()
        found = searcher.search(self._query(query, columns), limit=limit, offset=offset, count=False)
        return [self._hit(searcher, score, address) for score, address in found.hits]

    def count(self, query: str = "*", *, columns: Sequence[str] | None = None) -> int:
        """How many documents a search would find."""
        searcher = self._searcher()
        return int(searcher.search(self._query(query, columns), limit=1, count=True).count or 0)

    def get(self, **key: Any) -> dict[str, Any] | None:
        """The document with this key: `reader.get(id=7)`."""
        if sorted(key) != sorted(self._layout.key):
            raise BadSink(
                f"{', '.join(key) or 'nothing'} is not the key of this index",
                hint=f"its key is: {', '.join(self._layout.key) or 'none'}",
            )
        searcher = self._searcher()
        wanted = tantivy.Query.term_query(
            self._index.schema, KEY_FIELD, key_text(key, self._layout.key), index_option="basic"
        )
        hits = searcher.search(wanted, limit=1, count=False).hits
        return dict(self._hit(searcher, *hits[0]).row) if hits else None

    def _searcher(self) -> Any:
        self._index.reload()
        return self._index.searcher()

    def _query(self, query: str, columns: Sequence[str] | None) -> Any:
        names = list(columns) if columns is not None else self._layout.text_columns
        try:
            wanted = self._index.parse_query(query, names)
            fences = tantivy.Query.term_query(
                self._index.schema, MARK_FIELD, FENCE_MARK, index_option="basic"
            )
        except ValueError as error:
            known = ", ".join(column.name for column in self._layout.columns)
            raise BadSink(
                f"{query!r} can't be searched for: {error}", hint=f"the columns are: {known}"
            ) from error
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, wanted), (tantivy.Occur.MustNot, fences)])

    def _hit(self, searcher: Any, score: float, address: Any) -> Hit:
        fields = searcher.doc(address).to_dict()
        return Hit(row=row_of_document(fields, self._layout), score=score)
