"""The hook that kills a driver: what it can be told. What it does is in tests/faults/test_jobs_killed.py."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.pipeline.run.faults import AFTER_WRITE, Fault, FaultPoints


def test_fault_is_a_point_a_count_and_perhaps_a_number_of_jobs() -> None:
    assert Fault.from_text("after-write:3") == Fault(point="after-write", count=3)
    assert Fault.from_text("before-write:1:7") == Fault(point="before-write", count=1, jobs=7)


@pytest.mark.parametrize("text", ["", "after-write", "after-write:x", "somewhere:1", ":1"])
def test_anything_else_is_told_to_be_no_fault(text: str) -> None:
    with pytest.raises(HeadraceError, match="is not a fault"):
        Fault.from_text(text)


def test_job_that_never_comes_holds_up_the_others_once_and_not_at_every_batch() -> None:
    points = FaultPoints(Fault(point=AFTER_WRITE, count=1, jobs=2), wait_s_max=0.1)
    for _ in range(10_000):  # a wait each would take longer than any test may
        points.reached(AFTER_WRITE, job="one")
