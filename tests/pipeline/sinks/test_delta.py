"""Delta tables: a batch is one commit with its fence, compaction runs beside, DuckDB and Spark read the table."""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.delta import Delta
from headrace.pipeline.sinks.sink import RejectedRow, SinkWriter

ARROW = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("city", pyarrow.string()),
        ("price", pyarrow.float64()),
        ("op", pyarrow.string()),
        ("_offset", pyarrow.int64()),
    ]
)
SCHEMA = from_arrow_schema(ARROW)


def order(id: int | None, city: str, price: float = 1.0, *, op: str = "c", offset: int = 0) -> dict[str, Any]:
    return {"id": id, "city": city, "price": price, "op": op, "_offset": offset}


def batch(rows: Sequence[dict[str, Any]]) -> list[pyarrow.RecordBatch]:
    return list(pyarrow.Table.from_pylist(list(rows), schema=ARROW).to_batches())


def fence(number: int, checkpoint: str = "c-1", job: str = "loading") -> Fence:
    return Fence(job=job, checkpoint=checkpoint, batch_id=number, ends=('{"orders":{"0":9}}',))


def apply(writer: SinkWriter, number: int, *rows: dict[str, Any]) -> int:
    return writer.apply(batch(rows), fence(number), _fail)


def _fail(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(rows)


def rows_of(delta: Delta) -> set[tuple[Any, ...]]:
    table = delta.table().to_pyarrow_table()
    return {tuple(row.values()) for row in table.select(["id", "city", "price"]).to_pylist()}


@pytest.fixture
def orders(tmp_path: Path) -> Delta:
    return Delta("orders", key="id", partition_by="city", at=tmp_path / "orders")


@pytest.fixture
def writer(orders: Delta) -> Iterator[SinkWriter]:
    opened = orders.open("loading", SCHEMA)
    yield opened
    opened.close()


def test_rows_of_a_key_are_inserted_updated_and_deleted(orders: Delta, writer: SinkWriter) -> None:
    apply(writer, 0, order(1, "Rome"), order(2, "Oslo"), order(3, "Rome"))
    apply(writer, 1, order(1, "Rome", 2.0, op="u"), order(2, "", op="d"), order(4, "Lima", 4.0))
    assert rows_of(orders) == {(1, "Rome", 2.0), (3, "Rome", 1.0), (4, "Lima", 4.0)}


def test_row_that_moves_to_another_partition_exists_once(orders: Delta, writer: SinkWriter) -> None:
    apply(writer, 0, order(1, "Rome"))
    apply(writer, 1, order(1, "Oslo", op="u"))
    assert rows_of(orders) == {(1, "Oslo", 1.0)}


def test_within_a_batch_the_last_offset_of_a_key_counts(orders: Delta, writer: SinkWriter) -> None:
    apply(writer, 0, order(1, "Rome", 9.0, offset=5), order(1, "Oslo", 1.0, offset=2))
    assert rows_of(orders) == {(1, "Rome", 9.0)}


def test_batch_and_fence_are_one_commit_that_is_not_repeated(orders: Delta, writer: SinkWriter) -> None:
    assert apply(writer, 0, order(1, "Rome")) == 1
    version = orders.table().version()
    assert apply(writer, 0, order(1, "Rome")) == 0
    assert orders.table().version() == version
    assert writer.applied() == fence(0)


def test_batch_that_is_repeated_by_a_new_process_appends_its_rows_once(tmp_path: Path) -> None:
    delta = Delta("events", at=tmp_path)
    first = delta.open("loading", SCHEMA)
    apply(first, 7, order(1, "Rome"), order(1, "Rome"))
    first.close()
    second = delta.open("loading", SCHEMA)
    assert second.applied() == fence(7)
    assert apply(second, 7, order(1, "Rome"), order(1, "Rome")) == 0
    assert apply(second, 8, order(1, "Rome")) == 1
    assert delta.table().count() == 3


def test_same_number_of_another_checkpoint_is_another_batch(tmp_path: Path) -> None:
    delta = Delta("events", at=tmp_path)
    writer = delta.open("loading", SCHEMA)
    apply(writer, 3, order(1, "Rome"))
    assert writer.apply(batch([order(2, "Oslo")]), fence(0, checkpoint="c-2"), _fail) == 1
    assert writer.applied() == fence(0, checkpoint="c-2")
    assert delta.table().count() == 2


def test_empty_batch_moves_the_fence_only(orders: Delta, writer: SinkWriter) -> None:
    apply(writer, 0, order(1, "Rome"))
    assert apply(writer, 1) == 0
    assert writer.applied() == fence(1)
    assert rows_of(orders) == {(1, "Rome", 1.0)}


def test_replace_keeps_the_rows_of_the_last_batch_only(tmp_path: Path) -> None:
    delta = Delta("top", mode="replace", at=tmp_path)
    writer = delta.open("loading", SCHEMA)
    apply(writer, 0, order(1, "Rome"), order(2, "Oslo"))
    apply(writer, 1, order(3, "Lima"))
    assert rows_of(delta) == {(3, "Lima", 1.0)}
    apply(writer, 2)
    assert rows_of(delta) == set()


def test_row_without_its_key_is_rejected_and_the_others_are_written(
    orders: Delta, writer: SinkWriter
) -> None:
    rejected: list[RejectedRow] = []
    assert writer.apply(batch([order(None, "Rome"), order(1, "Oslo")]), fence(0), rejected.extend) == 1
    assert [(each.row["city"], each.reason) for each in rejected] == [("Rome", "the key id is null")]
    assert rows_of(orders) == {(1, "Oslo", 1.0)}


def test_new_columns_are_added_and_old_rows_have_none(orders: Delta, writer: SinkWriter) -> None:
    apply(writer, 0, order(1, "Rome"))
    rows = pyarrow.table({"id": [2], "city": ["Oslo"], "price": [2.0], "note": ["gift"]})
    wider = orders.open("loading", from_arrow_schema(rows.schema))
    wider.apply(rows.to_batches(), fence(1), _fail)
    table = orders.table().to_pyarrow_table().sort_by("id")
    assert table["note"].to_pylist() == [None, "gift"]


def test_any_other_change_of_columns_is_an_error_that_names_it(orders: Delta, writer: SinkWriter) -> None:
    other = ARROW.set(2, pyarrow.field("price", pyarrow.string()))
    with pytest.raises(BadSink, match=r"price: .*double.* -> .*string"):
        orders.open("loading", from_arrow_schema(other))
    with pytest.raises(BadSink, match="price is missing in the rows"):
        orders.open("loading", from_arrow_schema(ARROW.remove(2)))


def test_two_jobs_of_one_table_keep_a_fence_each(tmp_path: Path) -> None:
    delta = Delta("events", at=tmp_path)
    one, two = delta.open("loading", SCHEMA), delta.open("other", SCHEMA)
    for number in range(4):
        apply(one, number, order(number, "Rome"))
        two.apply(batch([order(number, "Oslo")]), fence(number + 10, job="other"), _fail)
    assert one.applied() == fence(3)
    assert two.applied() == fence(13, job="other")
    assert delta.table().count() == 8


def test_clear_deletes_rows_and_fence(orders: Delta, writer: SinkWriter) -> None:
    apply(writer, 0, order(1, "Rome"))
    writer.clear()
    assert writer.applied() is None
    assert rows_of(orders) == set()
    assert apply(writer, 0, order(2, "Oslo")) == 1
    assert writer.applied() == fence(0)


def test_upserts_and_compaction_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    delta = Delta("orders", key="id", at=tmp_path, compact_files=0)
    writer = delta.open("loading", SCHEMA)
    is_over = threading.Event()

    def compact() -> None:
        from deltalake.exceptions import CommitFailedError

        while not is_over.is_set():
            with contextlib.suppress(CommitFailedError):
                delta.table().optimize.compact()

    beside = threading.Thread(target=compact)
    beside.start()
    try:
        for number in range(15):
            apply(writer, number, order(number % 5, "Rome", float(number)), order(100 + number, "Oslo"))
    finally:
        is_over.set()
        beside.join()
    kept = {row for row in rows_of(delta) if row[1] == "Rome"}
    assert kept == {(number % 5, "Rome", float(number)) for number in range(10, 15)}
    assert len(rows_of(delta)) == 20


def test_duckdb_reads_the_table(orders: Delta, writer: SinkWriter) -> None:
    apply(writer, 0, order(1, "Rome", 1.5), order(2, "Oslo", 2.5), order(3, "Rome", 3.0))
    apply(writer, 1, order(2, "", op="d"))
    with duckdb.connect() as database:
        database.register("orders", orders.table().to_pyarrow_dataset())
        found = database.execute("SELECT city, sum(price), count(*) FROM orders GROUP BY city").fetchall()
    assert found == [("Rome", 4.5, 2)]


def test_nested_and_timed_columns_are_stored(tmp_path: Path) -> None:
    schema = pyarrow.schema(
        [
            ("at", pyarrow.timestamp("us", "UTC")),
            ("day", pyarrow.date32()),
            ("amount", pyarrow.decimal128(12, 2)),
            ("tags", pyarrow.list_(pyarrow.string())),
            ("place", pyarrow.struct({"x": pyarrow.int32(), "y": pyarrow.int32()})),
            ("raw", pyarrow.binary()),
        ]
    )
    row = {
        "at": datetime.datetime(2026, 11, 15, 8, 0, 0, 123456, tzinfo=datetime.UTC),
        "day": datetime.date(2026, 11, 15),
        "amount": Decimal("12.30"),
        "tags": ["a", None],
        "place": {"x": 1, "y": None},
        "raw": b"\x00\x01",
    }
    delta = Delta("all", at=tmp_path)
    writer = delta.open("loading", from_arrow_schema(schema))
    writer.apply(pyarrow.Table.from_pylist([row], schema=schema).to_batches(), fence(0), _fail)
    assert delta.table().to_pyarrow_table().to_pylist() == [row]


def test_wrong_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadSink, match="choose one of append, upsert, replace"):
        Delta("a", mode="merge")  # type: ignore[arg-type]
    with pytest.raises(BadSink, match="an upsert needs a key"):
        Delta("a", mode="upsert")
    with pytest.raises(BadSink, match="delta a: the rows have no column town"):
        Delta("a", partition_by="town", at=tmp_path).open("loading", SCHEMA)
    with pytest.raises(BadSink, match="delta a: the rows have no column at"):
        Delta("a", key="id", order_by="at", at=tmp_path).open("loading", SCHEMA)


@pytest.mark.parametrize("kind", [pyarrow.duration("us"), pyarrow.null()], ids=str)
def test_type_that_delta_does_not_have_is_an_error_that_names_the_column(
    tmp_path: Path, kind: pyarrow.DataType
) -> None:
    with pytest.raises(BadSink, match="can't have the column 'took'"):
        Delta("a", at=tmp_path).open("loading", from_arrow_schema(pyarrow.schema([("took", kind)])))


def test_other_partitions_are_an_error_that_names_them(orders: Delta, writer: SinkWriter) -> None:
    with pytest.raises(BadSink, match="is partitioned by city"):
        Delta("orders", key="id", at=orders.address).open("loading", SCHEMA)


def test_name_that_leaves_its_folder_is_rejected() -> None:
    with pytest.raises(BadSink, match=r"a table can't be called '\.\.'"):
        Delta("..")


def test_credentials_are_not_shown() -> None:
    assert "hunter2" not in repr(Delta("t", storage_options={"AWS_SECRET_ACCESS_KEY": "hunter2"}))
