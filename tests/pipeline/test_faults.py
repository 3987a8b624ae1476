"""The hook that kills a driver: what it can be told. What it does is in tests/faults/test_jobs_killed.py."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.pipeline.faults import Fault


def test_fault_is_a_point_a_count_and_perhaps_a_number_of_jobs() -> None:
    assert Fault.from_text("after-write:3") == Fault(point="after-write", count=3)
    assert Fault.from_text("before-write:1:7") == Fault(point="before-write", count=1, jobs=7)


@pytest.mark.parametrize("text", ["", "after-write", "after-write:x", "somewhere:1", ":1"])
def test_anything_else_is_told_to_be_no_fault(text: str) -> None:
    with pytest.raises(HeadraceError, match="is not a fault"):
        Fault.from_text(text)
