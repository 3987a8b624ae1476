"""Columns of a staging table, and the order of its rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.table_schema import columns_of
from headrace.pipeline.sinks.table_stage import (
    ORDER,
    REASON,
    WHOLE,
    StageLayout,
    is_deleted,
    order_type,
    order_values,
    packed,
    stage_name,
    stages_of,
    unpacked,
)
from headrace.pipeline.sinks.table_store import TableShape
from tests.pipeline.sinks.databases import schema_of


def layout_of(order_by: str | None = None, mode: str = "upsert", **kinds: str) -> StageLayout:
    schema = schema_of(**kinds)
    shape = TableShape(
        job="job", name="t", columns=tuple(columns_of(schema)), key=("id",), mode=mode, merge={}
    )
    return StageLayout.of(shape, schema, order_by)


def test_operation_and_order_are_staged_if_rows_replace_others() -> None:
    layout = layout_of(id="string", op="string", _offset="long")
    assert [column.name for column in layout.columns] == ["id", "op"]
    assert layout.order is not None
    assert layout.order.name == "_offset"
    assert layout.has_own_order
    appended = layout_of(mode="append", id="string", op="string", _offset="long")
    assert (appended.op, appended.order) == (None, None)


def test_staged_rows_have_their_rank_and_attempt() -> None:
    layout = layout_of(id="string", _offset="long")
    staged = layout.staged(pa.table({"id": ["a"], "_offset": [41]}), np.array([5]), 7)
    assert staged.to_pylist() == [{"c0": "a", ORDER: 41, "rank": 5, "attempt": 7}]


@pytest.mark.parametrize(
    ("kind", "value", "staged_as"),
    [
        ("long", 41, "bigint"),
        ("boolean", True, "bigint"),
        ("date", date(2026, 11, 15), "bigint"),
        ("timestamp", datetime(2026, 11, 15, 13, 59, tzinfo=UTC), "bigint"),
        ("timestamp_ntz", datetime.fromisoformat("2026-11-15 13:59"), "bigint"),
        ("interval day to second", timedelta(hours=1), "bigint"),
        ("string", "nul\0", "bytea"),
        ("binary", b"\0", "bytea"),
        ("double", 0.5, "double precision"),
        ("decimal(10,2)", Decimal("1.50"), "numeric"),
    ],
)
def test_rejected_row_has_its_order_as_it_was(kind: str, value: Any, staged_as: str) -> None:
    layout = layout_of("_by", id="string", _by=kind)
    assert layout.order is not None
    assert order_type(layout.order) == staged_as
    (staged,) = order_values(pa.chunked_array([pa.array([value])])).to_pylist()
    found = {"c0": "a", ORDER: staged, WHOLE: None}
    assert layout.original(found) == {"id": "a", "_by": value}
    assert layout.original({"c0": "a", ORDER: None, WHOLE: None}) == {"id": "a", "_by": None}


def test_row_that_can_not_be_staged_keeps_its_key_and_its_bytes() -> None:
    layout = layout_of(id="string", note="string")
    rows = pa.table({"id": ["a"], "note": ["nul\0"]})
    (marked,) = layout.marked(rows, np.array([5]), 7, ["NUL"]).to_pylist()
    assert (marked["c0"], marked["c1"], marked[REASON]) == ("a", None, "NUL")
    assert layout.original(marked) == {"id": "a", "note": "nul\0"}


def test_packed_rows_are_the_same_unpacked() -> None:
    rows = pa.table({"n": [1, None]})
    assert unpacked(packed(rows)) == rows


def test_every_try_of_a_batch_has_a_stage_of_its_own() -> None:
    shape = layout_of(id="string").shape
    fence = Fence(job="job", checkpoint="c", batch_id=3)
    names = {stage_name(shape, fence) for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith(f"{stages_of('job', 't')}3_") and len(name) < 64 for name in names)
    assert stages_of("job", "t") != stages_of("jobt", "")


def test_deletions_are_those_of_every_sink() -> None:
    assert is_deleted("op") == "coalesce(op IN ('d', '-'), false)"
