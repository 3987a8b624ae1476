"""The full-text index: documents by key, a fence in the same commit, searchable while it is written."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.search import Search
from headrace.pipeline.sinks.search_layout import TERM_BYTES_MAX
from headrace.pipeline.sinks.sink import RejectedRow, SinkWriter

ARROW = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("title", pyarrow.string()),
        ("body", pyarrow.string()),
        ("stars", pyarrow.int32()),
        ("op", pyarrow.string()),
        ("_offset", pyarrow.int64()),
    ]
)
SCHEMA = from_arrow_schema(ARROW)


def article(id: int | None, title: str, *, op: str = "c", offset: int = 0, stars: int = 3) -> dict[str, Any]:
    return {"id": id, "title": title, "body": "", "stars": stars, "op": op, "_offset": offset}


def batch(rows: Sequence[dict[str, Any]]) -> list[pyarrow.RecordBatch]:
    return list(pyarrow.Table.from_pylist(list(rows), schema=ARROW).to_batches())


def fence(number: int, checkpoint: str = "c-1", job: str = "indexing") -> Fence:
    return Fence(job=job, checkpoint=checkpoint, batch_id=number, ends=('{"articles":{"0":9}}',))


def apply(writer: SinkWriter, number: int, *rows: dict[str, Any]) -> int:
    return writer.apply(batch(rows), fence(number), _fail)


def _fail(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(rows)


@pytest.fixture
def index(tmp_path: Path) -> Search:
    return Search("articles", key="id", at=tmp_path / "articles")


@pytest.fixture
def writer(index: Search) -> Any:
    opened = index.open("indexing", SCHEMA)
    yield opened
    opened.close()


def titles(index: Search, query: str) -> set[str]:
    return {hit.row["title"] for hit in index.reader().search(query)}


def test_a_later_document_replaces_that_of_its_key_and_op_d_deletes_it(
    index: Search, writer: SinkWriter
) -> None:
    apply(writer, 0, article(1, "draft"), article(2, "kept"))
    apply(writer, 1, article(1, "final", op="u"))
    assert titles(index, "*") == {"final", "kept"}
    apply(writer, 2, article(2, "", op="d"))
    assert titles(index, "*") == {"final"}
    assert index.reader().get(id=1) == {"id": 1, "title": "final", "body": "", "stars": 3}
    assert index.reader().get(id=2) is None


def test_within_a_batch_the_last_offset_of_a_key_counts(index: Search, writer: SinkWriter) -> None:
    apply(
        writer, 0, article(1, "newest", offset=8), article(1, "old", offset=3), article(2, "gone", offset=4)
    )
    apply(writer, 1, article(2, "", op="d", offset=12), article(2, "back", offset=11))
    assert titles(index, "*") == {"newest"}


def test_fence_is_no_document(index: Search, writer: SinkWriter) -> None:
    apply(writer, 0)
    assert writer.applied() == fence(0)
    assert index.reader().count() == 0
    assert titles(index, "* -title:nothing") == set()


def test_rows_without_a_key_are_all_kept_once(tmp_path: Path) -> None:
    index = Search("log", at=tmp_path)
    writer = index.open("indexing", SCHEMA)
    assert apply(writer, 0, article(1, "same"), article(1, "same")) == 2
    assert apply(writer, 0, article(1, "same"), article(1, "same")) == 0
    writer.close()
    assert index.reader().count("same") == 2


def test_row_with_a_null_or_too_long_key_is_rejected_and_the_others_are_written(
    tmp_path: Path,
) -> None:
    index = Search("pages", key="title", at=tmp_path)
    writer = index.open("indexing", SCHEMA)
    rejected: list[RejectedRow] = []
    rows = [article(1, "x" * (TERM_BYTES_MAX + 1)), article(2, "good"), {**article(3, ""), "title": None}]
    assert writer.apply(batch(rows), fence(0), rejected.extend) == 1
    writer.close()
    assert [each.row["id"] for each in rejected] == [3, 1]
    assert rejected[0].reason == "the key title is null"
    assert "longer than" in rejected[1].reason
    assert index.reader().count() == 1


def test_failed_batch_leaves_nothing(index: Search, writer: SinkWriter) -> None:
    def fail(rows: Sequence[RejectedRow]) -> None:
        raise OSError("dead letters can't be written")

    with pytest.raises(OSError, match="dead letters"):
        writer.apply(batch([article(None, "bad"), article(1, "good")]), fence(0), fail)
    assert writer.applied() is None
    assert index.reader().count() == 0
    apply(writer, 0, article(1, "good"))
    assert titles(index, "*") == {"good"}


def test_jobs_of_a_process_share_an_index_and_keep_a_fence_each(index: Search, writer: SinkWriter) -> None:
    other = index.open("other", SCHEMA)
    apply(writer, 4, article(1, "one"))
    other.apply(batch([article(2, "two")]), fence(9, job="other"), _fail)
    assert writer.applied() == fence(4)
    assert other.applied() == fence(9, job="other")
    other.close()
    apply(writer, 5, article(3, "three"))
    assert titles(index, "*") == {"one", "two", "three"}


def test_columns_of_all_types_are_stored_and_found(tmp_path: Path) -> None:
    schema = pyarrow.schema(
        [
            ("id", pyarrow.string()),
            ("price", pyarrow.decimal128(10, 2)),
            ("ok", pyarrow.bool_()),
            ("at", pyarrow.timestamp("us", "UTC")),
            ("day", pyarrow.date32()),
            ("raw", pyarrow.binary()),
            ("tags", pyarrow.list_(pyarrow.string())),
            ("place", pyarrow.struct({"city": pyarrow.string(), "floor": pyarrow.int32()})),
            ("counts", pyarrow.map_(pyarrow.string(), pyarrow.int32())),
            ("missing", pyarrow.string()),
        ]
    )
    at = datetime.datetime(2026, 11, 15, 12, 30, 1, tzinfo=datetime.UTC)
    row = {
        "id": "a-1",
        "price": Decimal("9.25"),
        "ok": True,
        "at": at,
        "day": datetime.date(2026, 11, 15),
        "raw": b"\x00\xff",
        "tags": ["red", "green"],
        "place": {"city": "Berlin", "floor": 3},
        "counts": [("x", 1)],
        "missing": None,
    }
    index = Search("all", key="id", exact="tags", at=tmp_path)
    writer = index.open("indexing", from_arrow_schema(schema))
    rows = pyarrow.Table.from_pylist([row], schema=schema)
    writer.apply(rows.to_batches(), fence(0), _fail)
    writer.close()
    reader = index.reader()
    assert reader.get(id="a-1") == {
        **row,
        "counts": {"x": 1},
    }
    for query in (
        "tags:green",
        "place.city:berlin",
        "place.floor:3",
        "ok:true",
        "price:[9 TO 10]",
        "counts.x:1",
    ):
        assert reader.count(query) == 1, query
    assert reader.count("at:[2026-11-15T00:00:00Z TO 2026-11-16T00:00:00Z]") == 1


def test_other_columns_are_an_error_that_names_them(index: Search, writer: SinkWriter) -> None:
    fewer = pyarrow.schema([ARROW.field("id"), ARROW.field("title")])
    with pytest.raises(BadSink, match="has other columns: -body, -stars"):
        index.open("indexing", from_arrow_schema(fewer))
    other = ARROW.set(1, pyarrow.field("title", pyarrow.int64())).append(
        pyarrow.field("more", pyarrow.string())
    )
    with pytest.raises(BadSink, match=r"has other columns: \+more, title"):
        index.open("indexing", from_arrow_schema(other))


def test_wrong_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadSink, match="search articles: the rows have no column uid"):
        Search("articles", key="uid", at=tmp_path).open("indexing", SCHEMA)
    with pytest.raises(BadSink, match="search articles: the rows have no column at"):
        Search("articles", key="id", order_by="at", at=tmp_path).open("indexing", SCHEMA)


HALF_WRITTEN = """
import sys
from tests.pipeline.sinks.test_search import *
writer = Search("articles", key="id", at=sys.argv[1]).open("indexing", SCHEMA)
apply(writer, 0, article(1, "committed"))
def die(rows):
    print("staged", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
writer.apply(batch([article(1, "lost"), article(2, "lost"), article(None, "rejected")]), fence(1), die)
"""


def test_writer_killed_before_its_commit_leaves_the_batch_before(index: Search) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HALF_WRITTEN, str(index.folder)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        timeout=100,
        check=False,
    )
    assert done.stdout == "staged\n", done.stderr
    assert done.returncode == -signal.SIGKILL
    writer = index.open("indexing", SCHEMA)
    assert writer.applied() == fence(0)
    assert titles(index, "*") == {"committed"}
    assert apply(writer, 1, article(1, "again"), article(2, "two")) == 2
    assert titles(index, "*") == {"again", "two"}
    writer.close()


def test_files_of_an_incomplete_commit_do_not_block_the_next_one(index: Search) -> None:
    """A commit writes `meta.json` last. Without it, the other files are those of an incomplete commit."""
    writer = index.open("indexing", SCHEMA)
    apply(writer, 0, article(1, "one"), article(2, "two"))
    writer.close()
    before = (index.folder / "meta.json").read_bytes()
    for _ in range(2):
        writer = index.open("indexing", SCHEMA)
        assert apply(writer, 1, article(1, "uno")) == 1
        writer.close()
        assert titles(index, "title:uno") == {"uno"}
        (index.folder / "meta.json").write_bytes(before)
    writer = index.open("indexing", SCHEMA)
    assert titles(index, "title:one") == {"one"}
    writer.close()


def test_name_that_leaves_its_folder_is_rejected() -> None:
    with pytest.raises(BadSink, match="an index can't be called 'a/b'"):
        Search("a/b")


@pytest.mark.parametrize("is_shared", [True, False])
def test_order_of_columns_does_not_matter(index: Search, is_shared: bool) -> None:
    writer = index.open("indexing", SCHEMA)
    apply(writer, 0, article(1, "one"))
    if not is_shared:
        writer.close()
    reversed_columns = pyarrow.schema(list(reversed(ARROW)))
    reopened = index.open("indexing", from_arrow_schema(reversed_columns))
    rows = pyarrow.Table.from_pylist([article(2, "two", stars=5)], schema=reversed_columns)
    reopened.apply(rows.to_batches(), fence(1), _fail)
    assert index.reader().get(id=2) == {"id": 2, "title": "two", "body": "", "stars": 5}
    for opened in (reopened, writer) if is_shared else (reopened,):
        opened.close()
