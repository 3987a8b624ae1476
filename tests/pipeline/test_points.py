"""The points of a batch, as the test kit hooks into them."""

from __future__ import annotations

import pytest

from headrace.pipeline import points


@pytest.fixture(autouse=True)
def no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "hooks", [])


def test_every_hook_gets_the_point_and_the_job_in_the_order_of_registration() -> None:
    seen: list[tuple[str, str, str]] = []
    points.hooks.append(lambda point, job: seen.append(("first", point, job)))
    points.hooks.append(lambda point, job: seen.append(("second", point, job)))
    points.reached("before-write", job="j")
    assert seen == [("first", "before-write", "j"), ("second", "before-write", "j")]


def test_error_of_a_hook_aborts_the_batch() -> None:
    def abort(point: points.Point, job: str) -> None:
        raise RuntimeError(f"{job} aborted {point}")

    points.hooks.append(abort)
    with pytest.raises(RuntimeError, match="j aborted after-write"):
        points.reached("after-write", job="j")
