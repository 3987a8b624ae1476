"""Views in a full-text index of their own folder (tantivy): `search` with highlights and facets, and `select`.

Option `exact`: columns, with commas, that are found as a whole and can be facets; those of the key are, always.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.kafka.position import Position
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.search_reader import HITS_MAX, SearchReader
from headrace.views.definition import Definition, Row
from headrace.views.errors import BadView
from headrace.views.query.rows import selected
from headrace.views.reader import Found, Reader, SearchResult
from headrace.views.selection import Selection
from headrace.views.store import Store
from headrace.views.stores.folder_versions import FolderVersions
from headrace.views.stores.options import check_options, column_option
from headrace.views.stores.row_selection import SCAN_ROWS_MAX, equalities, too_many_rows

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink

SAMPLE_PAGES = 10


class SearchViews(Store):
    def __init__(self, definition: Definition, data_dir: Path) -> None:
        super().__init__(definition, data_dir)
        self._folders = FolderVersions(definition, Path(definition.at or data_dir / "search"))

    def check(self) -> None:
        check_options(self.definition, "exact")
        self._folders.check()

    def sink(self, version: int) -> Sink:
        from headrace.pipeline.sinks.search import Search

        return Search(
            self.definition.physical(version),
            key=self.definition.key,
            at=self._folders.path(version),
            exact=column_option(self.definition, "exact"),
        )

    def versions(self) -> list[int]:
        return self._folders.versions()

    def served(self) -> int | None:
        return self._folders.served()

    def switch(self, version: int) -> None:
        self._folders.switch(version)

    def drop(self, version: int) -> None:
        self._folders.drop(version)

    def drop_view(self) -> None:
        self._folders.drop_view()

    def count(self, version: int) -> int:
        return self.reader(version).count()

    def sample(self, version: int, limit: int) -> list[dict[str, Any]]:
        return self.reader(version).sample(limit)

    def reader(self, version: int) -> SearchViewReader:
        return SearchViewReader(self._folders, version)

    def close(self) -> None:
        pass


class SearchViewReader(Reader):
    def __init__(self, folders: FolderVersions, version: int) -> None:
        self._folders = folders
        self._version = version
        with self._reading():
            self._index = SearchReader(folders.path(version))

    def columns(self) -> Sequence[str]:
        return self._index.columns

    def types(self) -> Mapping[str, str]:
        return self._index.types

    def position(self) -> Position | None:
        with self._reading():
            fences = self._index.fences()
        return Position.merged(Position.from_fence(each.ends).offsets for each in fences) if fences else None

    def get(self, key: Row) -> dict[str, Any] | None:
        with self._reading():
            return self._index.get(**key)

    def select(self, selection: Selection) -> list[dict[str, Any]]:
        values = equalities(selection)
        with self._reading():
            rows = self._index.count_with(values)
            if rows > SCAN_ROWS_MAX:
                raise too_many_rows(
                    self._folders.definition.name,
                    rows,
                    "add a condition COLUMN = 'TEXT' on the key or an exact column, search with words, or create the "
                    "view in a database: --to sqlite or --to postgresql",
                )
            found = self._index.rows_with(values, limit=SCAN_ROWS_MAX)
        return selected(found, selection)

    def search(
        self, query: str, *, limit: int = 10, offset: int = 0, facets: Sequence[str] = ()
    ) -> SearchResult:
        if offset + limit > HITS_MAX:
            raise BadView(
                f"hits from {offset} to {offset + limit} cannot be read",
                hint=f"the first {HITS_MAX} can; make the query narrower",
            )
        with self._reading():
            hits = self._index.search(query, limit=limit, offset=offset)
            rows = [hit.row for hit in hits]
            found = [
                Found(row=hit.row, score=hit.score, highlights=fragments)
                for hit, fragments in zip(hits, self._index.highlights(query, rows), strict=True)
            ]
            return SearchResult(
                total=self._index.count(query), hits=found, facets=self._index.facets(query, facets)
            )

    def count(self) -> int:
        with self._reading():
            return self._index.count()

    def sample(self, limit: int) -> list[dict[str, Any]]:
        """Pages from all over the index, which has no order of its own."""
        pages = min(SAMPLE_PAGES, limit)
        found: list[dict[str, Any]] = []
        with self._reading():
            total = self._index.count()
            size = -(-limit // pages)
            for page in range(pages):
                offset = max(page * size, page * total // pages)
                found += self._index.rows_with({}, limit=size, offset=offset)
        return found[:limit]

    def close(self) -> None:
        pass

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """A version that was dropped is an error of its own, whatever tantivy makes of the missing files."""
        try:
            yield
        except BadSink as error:
            if not self._folders.exists(self._version):
                raise self._folders.gone(self._version) from error
            raise BadView(error.message, hint=error.hint) from error
        except (ValueError, OSError) as error:
            if not self._folders.exists(self._version):
                raise self._folders.gone(self._version) from error
            raise
