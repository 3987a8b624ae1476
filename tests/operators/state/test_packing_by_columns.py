"""The core packs rows by columns only if something that reads by columns is imported."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from headrace.operators.state import packing_by_columns
from headrace.operators.state.packing_by_columns import packed_by_columns, set_function

ROWS, PACKED = cast(Any, "rows"), cast(Any, "packed")


def test_the_last_function_that_was_set_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing_by_columns, "_functions", [])
    schema = pa.schema([])
    assert packed_by_columns(ROWS, lambda rows: None, schema, 10) is None
    set_function(lambda rows, pack, packed, rows_max: None)
    set_function(lambda rows, pack, packed, rows_max: PACKED if (rows, rows_max) == (ROWS, 10) else None)
    assert packed_by_columns(ROWS, lambda rows: None, schema, 10) is PACKED
