"""What the rows of a batch come to, against a plain loop that does the same one row at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.sinks.changes import accumulate, collapse, stored_columns

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["c", "u", "d", "r", "+", "-", None]),
            "id": st.sampled_from(["a", "b", "c", ""]),
            "part": st.integers(0, 1),
            "n": st.one_of(st.none(), st.integers(-5, 5)),
            "_offset": st.one_of(st.none(), st.integers(0, 4)),
        }
    ),
    max_size=12,
)
SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("id", pa.string()),
        ("part", pa.int32()),
        ("n", pa.int64()),
        ("_offset", pa.int64()),
    ]
)
KEY = ["id", "part"]


def one_by_one(rows: list[dict[str, Any]], order_by: str | None) -> dict[Any, dict[str, Any] | None]:
    """The expected row of every key; None for a deleted one."""

    def place(numbered: tuple[int, dict[str, Any]]) -> tuple[Any, ...]:
        number, row = numbered
        by = () if order_by is None else (row[order_by] is not None, row[order_by] or 0)
        return (*by, row.get("op") not in {"d", "-"}, number)

    end: dict[Any, dict[str, Any] | None] = {}
    for _, row in sorted(enumerate(rows), key=place):
        is_gone = row.get("op") in {"d", "-"}
        end[row["id"], row["part"]] = None if is_gone else row
    return end


def outcome(rows: pa.Table, order_by: str | None = None) -> dict[Any, int | str | None]:
    changes = collapse(rows, key=KEY, order_by=order_by)
    assert changes.upserts.column_names == ["id", "part", "n"]
    assert changes.deletes.column_names == KEY
    at = rows.take(changes.upsert_positions)
    assert at.select(["id", "part", "n"]).to_pylist() == changes.upserts.to_pylist()
    kept = {(row["id"], row["part"]): row["n"] for row in changes.upserts.to_pylist()}
    deleted: dict[Any, int | str | None] = {
        (row["id"], row["part"]): "deleted" for row in changes.deletes.to_pylist()
    }
    assert not kept.keys() & deleted.keys()
    assert len(kept) + len(deleted) == len(changes.upserts) + len(changes.deletes)
    return kept | deleted


def expected(rows: list[dict[str, Any]], order_by: str | None) -> dict[Any, int | str | None]:
    return {key: "deleted" if row is None else row["n"] for key, row in one_by_one(rows, order_by).items()}


@given(ROWS)
def test_last_offset_of_a_key_is_its_row(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    assert outcome(table) == expected(rows, "_offset")


@given(ROWS)
def test_order_by_goes_before_offsets(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    assert outcome(table, order_by="n") == expected(rows, "n")


@given(ROWS)
def test_without_an_order_an_assertion_beats_a_retraction(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA).drop_columns(["_offset"])
    assert outcome(table) == expected(rows, None)


@given(ROWS, st.integers(1, 5))
def test_chunks_of_a_batch_do_not_matter(rows: list[dict[str, Any]], chunk: int) -> None:
    whole = pa.Table.from_pylist(rows, SCHEMA)
    chunked = pa.Table.from_batches(whole.to_batches(max_chunksize=chunk), SCHEMA)
    assert outcome(chunked) == outcome(whole)


@given(ROWS)
def test_accumulated_columns_have_every_row_in_them(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA).drop_columns(["op"])
    table = table.append_column("least", table["n"]).append_column("last", table["n"])
    found = accumulate(table, key=KEY, how={"n": "sum", "least": "min"}).upserts.to_pylist()
    last = one_by_one([{**row, "op": None} for row in rows], "_offset")
    assert {(row["id"], row["part"]) for row in found} == last.keys()
    for row in found:
        key = (row["id"], row["part"])
        there = [each["n"] for each in rows if (each["id"], each["part"]) == key and each["n"] is not None]
        newest = last[key]
        assert newest is not None
        assert row["n"] == (sum(there) if there else None)
        assert row["least"] == (min(there) if there else None)
        assert row["last"] == newest["n"]


def test_op_and_metadata_are_stored_only_on_request_in_arrow() -> None:
    schema = pa.schema(
        [("op", pa.string()), ("id", pa.string()), ("_offset", pa.int64()), ("_key", pa.string())]
    )
    assert stored_columns(schema) == ["id"]
    assert stored_columns(schema, keep=["_key"]) == ["id", "_key"]


def test_op_that_is_no_text_is_a_column_like_others() -> None:
    rows = pa.table({"op": [1, 2], "id": ["a", "b"]})
    changes = collapse(rows, key=["id"])
    assert changes.upserts.column_names == ["op", "id"]
    assert len(changes.deletes) == 0
