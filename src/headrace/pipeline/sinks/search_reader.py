"""Searching an index, from any process, while a job writes it. A search sees all earlier commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tantivy
from msgspec import Struct

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.search_layout import (
    FENCE_FIELD,
    FENCE_MARK,
    KEY_FIELD,
    MARK_FIELD,
    TERM_BYTES_MAX,
    FieldKind,
    key_text,
    read_layout,
    row_of_document,
)

HITS_MAX = 10_000
"""A search keeps its hits in memory; more than these are no longer read by a person."""

FACET_VALUES_MAX = 100
"""Values of a column that are counted; a person chooses among fewer."""

JOBS_MAX = 100
"""Jobs that write one index."""


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

    def highlights(
        self, query: str, rows: Sequence[Mapping[str, Any]], *, columns: Sequence[str] | None = None
    ) -> list[dict[str, str]]:
        """For each row the best fragment of each text, as HTML with the words of the query between `<b>` and `</b>`."""
        searcher, wanted = self._searcher(), self._query(query, columns)
        texts = [column.name for column in self._layout.columns if column.kind is FieldKind.TEXT]
        generators = {
            name: tantivy.SnippetGenerator.create(searcher, wanted, self._index.schema, name)
            for name in texts
        }
        return [self._fragments(row, generators) for row in rows]

    def _fragments(self, row: Mapping[str, Any], generators: Mapping[str, Any]) -> dict[str, str]:
        found = {}
        for name, generator in generators.items():
            content = row[name] if isinstance(row[name], list) else [row[name]]
            text = "\n".join(each for each in content if each is not None)
            document = tantivy.Document.from_dict({name: text}, self._index.schema)
            fragment = generator.snippet_from_doc(document)
            if fragment.highlighted():
                found[name] = fragment.to_html()
        return found

    def facets(
        self, query: str, by: Sequence[str], *, columns: Sequence[str] | None = None
    ) -> dict[str, dict[str, int]]:
        """For each of the columns `by` how many hits its most frequent values have."""
        unknown = [name for name in by if name not in self._layout.facet_columns]
        if unknown:
            raise BadSink(
                f"the values of {', '.join(unknown)} can't be counted",
                hint=f"these can: {', '.join(self._layout.facet_columns) or 'none'}; texts only if they are in exact=",
            )
        if not by:
            return {}
        wanted = {name: {"terms": {"field": name, "size": FACET_VALUES_MAX}} for name in by}
        found = self._searcher().aggregate(self._query(query, columns), wanted)
        kinds = {column.name: column.kind for column in self._layout.columns}
        return {
            name: {_facet(each, kinds[name]): each["doc_count"] for each in found[name]["buckets"]}
            for name in by
        }

    def rows_with(self, values: Mapping[str, Any], *, limit: int, offset: int = 0) -> list[dict[str, Any]]:
        """Rows with these values in the columns that are found as a whole. Other columns are not compared."""
        searcher = self._searcher()
        hits = searcher.search(self._rows_query(values), limit=limit, offset=offset, count=False).hits
        return [dict(self._hit(searcher, score, address).row) for score, address in hits]

    def count_with(self, values: Mapping[str, Any]) -> int:
        return int(self._searcher().search(self._rows_query(values), limit=1, count=True).count or 0)

    def _rows_query(self, values: Mapping[str, Any]) -> Any:
        terms = [
            tantivy.Query.term_query(
                self._index.schema, column.name, values[column.name], index_option="basic"
            )
            for column in self._layout.columns
            if column.kind is FieldKind.WORD
            and isinstance(values.get(column.name), str)
            and len(values[column.name].encode()) <= TERM_BYTES_MAX
        ]
        rows = [tantivy.Query.all_query(), *terms]
        return self._rows_of(tantivy.Query.boolean_query([(tantivy.Occur.Must, each) for each in rows]))

    def fences(self) -> list[Fence]:
        """The last batches of the jobs that write the index."""
        searcher = self._searcher()
        hits = searcher.search(self._fences_query(), limit=JOBS_MAX, count=False).hits
        return [Fence.from_json(bytes(searcher.doc(address)[FENCE_FIELD][0]).decode()) for _, address in hits]

    @property
    def types(self) -> dict[str, str]:
        """By column, what it is in the index: `text` is found by words, `word` as a whole."""
        return {
            column.name: f"list of {column.kind}" if column.is_many else str(column.kind)
            for column in self._layout.columns
        }

    @property
    def columns(self) -> list[str]:
        return [column.name for column in self._layout.columns]

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
        except ValueError as error:
            known = ", ".join(column.name for column in self._layout.columns)
            raise BadSink(
                f"{query!r} can't be searched for: {error}", hint=f"the columns are: {known}"
            ) from error
        return self._rows_of(wanted)

    def _rows_of(self, wanted: Any) -> Any:
        return tantivy.Query.boolean_query(
            [(tantivy.Occur.Must, wanted), (tantivy.Occur.MustNot, self._fences_query())]
        )

    def _fences_query(self) -> Any:
        return tantivy.Query.term_query(self._index.schema, MARK_FIELD, FENCE_MARK, index_option="basic")

    def _hit(self, searcher: Any, score: float, address: Any) -> Hit:
        fields = searcher.doc(address).to_dict()
        return Hit(row=row_of_document(fields, self._layout), score=score)


def _facet(bucket: Mapping[str, Any], kind: FieldKind) -> str:
    if kind is FieldKind.BOOLEAN:
        return "true" if bucket["key"] else "false"
    return str(bucket["key"])
