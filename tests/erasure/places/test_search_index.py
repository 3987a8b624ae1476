"""A full-text index: documents are gone, deleted ones from the segments too; other rows and fences stay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.places.search_index import SearchIndex
from headrace.erasure.subject import Subject
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.search import Search
from headrace.pipeline.sinks.sink import RejectedRow, SinkWriter

ARROW = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("name", pyarrow.string()),
        ("op", pyarrow.string()),
        ("_offset", pyarrow.int64()),
    ]
)
SCHEMA = from_arrow_schema(ARROW)


def _fail(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(rows)


def apply(writer: SinkWriter, number: int, *rows: tuple[int, str, str]) -> None:
    table = pyarrow.Table.from_pylist(
        [{"id": id, "name": name, "op": op, "_offset": number} for id, name, op in rows], schema=ARROW
    )
    fence = Fence(job="indexing", checkpoint="c-1", batch_id=number, ends=("{}",))
    writer.apply(table.to_batches(), fence, _fail)


@pytest.fixture
def index(tmp_path: Path) -> Search:
    return Search("users", key="id", at=tmp_path / "users")


@pytest.fixture
def writer(index: Search) -> Any:
    return index.open("indexing", SCHEMA)


def test_document_is_gone_and_no_segment_has_deleted_documents(index: Search, writer: SinkWriter) -> None:
    apply(writer, 0, (7, "ada", "c"), (8, "grace", "c"), (9, "alan", "c"))
    writer.close()
    place, subject = SearchIndex(index.folder, "id"), Subject(key='{"id": 7}')
    assert place.remaining(subject) == 1
    place.erase(subject)
    assert place.remaining(subject) == 0
    reader = index.reader()
    assert [reader.count(each) for each in ("*", "ada", "grace")] == [2, 0, 1]
    assert reader.get(id=9) == {"id": 9, "name": "alan"}


def test_documents_that_were_deleted_before_count_until_they_are_rewritten(
    index: Search, writer: SinkWriter
) -> None:
    apply(writer, 0, (7, "ada", "c"), (8, "grace", "c"))
    apply(writer, 1, (7, "", "d"))
    writer.close()
    place, subject = SearchIndex(index.folder, "id"), Subject(key="7")
    assert place.remaining(subject) > 0
    place.erase(subject)
    assert place.remaining(subject) == 0


def test_job_continues_after_its_fence(index: Search, writer: SinkWriter) -> None:
    apply(writer, 3, (7, "ada", "c"), (8, "grace", "c"))
    writer.close()
    SearchIndex(index.folder, "name").erase(Subject(key="ada"))
    again = index.open("indexing", SCHEMA)
    applied = again.applied()
    assert applied is not None
    assert applied.batch_id == 3
    apply(again, 4, (8, "grace hopper", "u"))
    again.close()
    assert index.reader().get(id=8) == {"id": 8, "name": "grace hopper"}


def test_index_that_a_job_writes_is_reported(index: Search, writer: SinkWriter) -> None:
    apply(writer, 0, (7, "ada", "c"))
    with pytest.raises(ErasureInterrupted, match="can't be written now"):
        SearchIndex(index.folder, "id").erase(Subject(key="7"))
    writer.close()


def test_wrong_folder_and_wrong_column_are_errors(index: Search, writer: SinkWriter) -> None:
    writer.close()
    with pytest.raises(BadErasure, match="there is no index"):
        SearchIndex(index.folder / "other", "id")
    with pytest.raises(BadErasure, match="has no column user"):
        SearchIndex(index.folder, "user")
