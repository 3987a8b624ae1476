"""A view of Headrace: all its versions in its store, the served one and one that is built.

A view follows its topics, so a tombstone deletes the row there too. This place deletes it in any case, and rewrites the
files of the store.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.erasure.errors import BadErasure
from headrace.erasure.place import Place
from headrace.erasure.places.delta_table import DeltaFolder
from headrace.erasure.places.postgres_table import PostgresTable
from headrace.erasure.places.redis_keys import RedisKeys
from headrace.erasure.places.sqlite_table import SqliteTable
from headrace.erasure.subject import Subject
from headrace.views.catalog import Views

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink


class ViewVersions:
    def __init__(self, data_dir: Path, view: str, column: str) -> None:
        self._folder = Views(data_dir).folder(view)
        definition = self._folder.record().definition
        if not column and len(definition.key) != 1:
            raise BadErasure(
                f"view {view} has several key columns: {', '.join(definition.key)}",
                hint=f"name the one that has the person: view://{view}?column=C",
            )
        self._column = column or definition.key[0]
        self.name = f"view {view}.{self._column}"

    def remaining(self, subject: Subject) -> int:
        return sum(each.remaining(subject) for each in self._places())

    def erase(self, subject: Subject) -> None:
        for each in self._places():
            each.erase(subject)

    def _places(self) -> list[Place]:
        record = self._folder.record()
        places = []
        for number in record.versions:
            with closing(self._folder.store(number)) as store:
                places += [
                    place_of(store.sink(version), self._column)
                    for version in store.versions()
                    if version == number
                ]
        return places


def place_of(sink: Sink, column: str) -> Place:
    """The place that a sink writes to."""
    from headrace.pipeline.sinks import Delta, OpenSearch, Parquet, Redis, Search, Table

    if isinstance(sink, Table) and sink.is_postgres:
        return PostgresTable(str(sink.at), sink.name, column)
    if isinstance(sink, Table) and sink.at is not None:
        return SqliteTable(Path(sink.at), sink.name, column)
    if isinstance(sink, Redis) and list(sink.key) == [column]:
        return RedisKeys(sink.at, sink.name, column)
    if isinstance(sink, Search):
        from headrace.erasure.places.search_index import SearchIndex

        return SearchIndex(sink.folder, column)
    if isinstance(sink, OpenSearch):
        from headrace.erasure.places.opensearch_index import OpenSearchIndex

        return OpenSearchIndex(sink.at, sink.name, column)
    if isinstance(sink, Parquet):
        from headrace.erasure.places.parquet_table import ParquetTable

        return ParquetTable(sink.path, column)
    if isinstance(sink, Delta) and "://" not in sink.address:
        return DeltaFolder(Path(sink.address), column)
    raise BadErasure(
        f"an erasure does not reach {sink.target()}",
        hint="delete the person there with the tools of that system",
    )
