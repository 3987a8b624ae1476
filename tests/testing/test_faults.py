"""Where a job is killed. What happens then is in tests/faults/test_jobs_killed.py."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.testing.faults import Kill, Killer


def test_kill_is_a_point_a_time_and_perhaps_a_number_of_jobs() -> None:
    assert Kill.from_text("after-write:3") == Kill(point="after-write", time=3)
    assert Kill.from_text("before-write:1:7") == Kill(point="before-write", time=1, jobs=7)


@pytest.mark.parametrize("text", ["", "after-write", "after-write:x", "somewhere:1", ":1"])
def test_anything_else_is_invalid(text: str) -> None:
    with pytest.raises(HeadraceError, match="is invalid"):
        Kill.from_text(text)


def test_job_that_never_comes_holds_up_the_others_once_and_not_at_every_batch() -> None:
    killer = Killer(Kill(point="after-write", time=1, jobs=2), wait_s_max=0.1)
    for _ in range(10_000):  # a wait each would take longer than any test may
        killer.reached("after-write", "one")
