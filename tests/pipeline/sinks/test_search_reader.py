"""Searching an index while it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from msgspec.structs import replace
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import HITS_MAX, Search, SearchReader, search
from headrace.pipeline.sinks.search_layout import Layout, layout_of
from headrace.pipeline.sinks.sink import RejectedRow

ARROW = pyarrow.schema([("id", pyarrow.int64()), ("title", pyarrow.string()), ("stars", pyarrow.int32())])
Add = Callable[..., None]


@pytest.fixture
def index(tmp_path: Path) -> Search:
    return Search("articles", key="id", at=tmp_path / "articles")


@pytest.fixture
def add(index: Search) -> Iterator[Add]:
    """Writes a batch of articles: id, title and stars."""
    writer = index.open("indexing", from_arrow_schema(ARROW))
    numbers = iter(range(100))

    def fail(rows: Sequence[RejectedRow]) -> None:
        raise AssertionError(rows)

    def add(*articles: tuple[int, str, int]) -> None:
        rows = [dict(zip(ARROW.names, article, strict=True)) for article in articles]
        fence = Fence(job="indexing", checkpoint="c", batch_id=next(numbers))
        writer.apply(pyarrow.Table.from_pylist(rows, schema=ARROW).to_batches(), fence, fail)

    yield add
    writer.close()


@pytest.fixture
def reader(index: Search, add: Add) -> SearchReader:
    return index.reader()


def titles(reader: SearchReader, query: str, **options: Any) -> list[str]:
    return [hit.row["title"] for hit in reader.search(query, **options)]


def test_documents_are_found_by_words_phrases_columns_and_ranges(reader: SearchReader, add: Add) -> None:
    add((1, "Streams of events", 1), (2, "The event log", 5), (3, "Of streams", 4))
    assert sorted(titles(reader, "streams")) == ["Of streams", "Streams of events"]
    assert titles(reader, '"streams of"') == ["Streams of events"]
    assert sorted(titles(reader, "title:log OR id:3")) == ["Of streams", "The event log"]
    assert sorted(titles(reader, "stars:[4 TO 5]")) == ["Of streams", "The event log"]
    assert reader.count() == 3


def test_open_reader_sees_later_commits(reader: SearchReader, add: Add) -> None:
    assert reader.count() == 0
    add((1, "one", 1))
    assert titles(reader, "one") == ["one"]
    assert reader.get(id=1) == {"id": 1, "title": "one", "stars": 1}
    assert reader.get(id=2) is None


def test_best_hit_is_first_and_hits_can_be_paged(reader: SearchReader, add: Add) -> None:
    add((1, "event and many other words besides", 1), (2, "event event", 1))
    hits = reader.search("event")
    assert [hit.row["id"] for hit in hits] == [2, 1]
    assert hits[0].score > hits[1].score
    assert titles(reader, "event", limit=1, offset=1) == ["event and many other words besides"]


@pytest.mark.parametrize("limit", [0, -1, HITS_MAX + 1])
def test_number_of_hits_is_bounded(reader: SearchReader, limit: int) -> None:
    with pytest.raises(BadSink, match=f"limit={limit} is not possible"):
        reader.search("*", limit=limit)


def test_error_names_the_columns_or_the_key(reader: SearchReader) -> None:
    with pytest.raises(BadSink, match="the columns are: id, title, stars"):
        reader.search("author:me")
    with pytest.raises(BadSink, match="its key is: id"):
        reader.get(title="x")


def test_folder_without_an_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSink, match="there is no index in"):
        SearchReader(tmp_path / "nowhere")


def test_rows_are_found_by_whole_values_and_fences_are_not_rows(tmp_path: Path) -> None:
    index = Search("articles", key="title", at=tmp_path / "articles")
    writer = index.open("indexing", from_arrow_schema(ARROW))
    fence = Fence(job="indexing", checkpoint="c", batch_id=0)
    rows = [{"id": each, "title": f"no {each}", "stars": each % 2} for each in range(4)]
    writer.apply(pyarrow.Table.from_pylist(rows, schema=ARROW).to_batches(), fence, lambda rejected: None)
    reader = index.reader()
    assert reader.fences() == [fence]
    assert (reader.count_with({}), reader.count_with({"title": "no 3", "stars": 0})) == (4, 1)
    assert reader.rows_with({"title": "no 3"}, limit=10) == rows[3:]
    assert reader.facets("*", ["stars"]) == {"stars": {"0": 2, "1": 2}}
    assert reader.types == {"id": "integer", "title": "word", "stars": "integer"}
    writer.close()


def test_index_of_an_older_version_is_written_and_has_no_facets_of_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Search("articles", key="title", at=tmp_path / "articles")
    with monkeypatch.context() as patched:
        patched.setattr(search, "layout_of", _older_layout)
        index.open("indexing", from_arrow_schema(ARROW)).close()
    index.open("indexing", from_arrow_schema(ARROW)).close()
    with pytest.raises(BadSink, match="title can't be counted"):
        index.reader().facets("*", ["title"])


def _older_layout(stored: Any, **options: Any) -> Layout:
    layout = layout_of(stored, **options)
    return replace(layout, columns=tuple(replace(each, is_counted=False) for each in layout.columns))
