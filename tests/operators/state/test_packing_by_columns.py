"""The core packs rows by columns only if something that reads by columns is imported."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.operators.state import packing_by_columns
from headrace.operators.state.packing_by_columns import packed_by_columns, set_function

ROWS, PACKER, PACKED = cast(Any, "rows"), cast(Any, "packer"), cast(Any, "packed")


def test_the_last_function_that_was_set_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing_by_columns, "_functions", [])
    assert packed_by_columns(ROWS, PACKER) is None
    set_function(lambda rows, packer: None)
    set_function(lambda rows, packer: PACKED if (rows, packer) == (ROWS, PACKER) else None)
    assert packed_by_columns(ROWS, PACKER) is PACKED
