"""What happens to late rows: dropped, corrected, or written to a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import operators as op
from headrace.operators.late import Late, side_output


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Correct(within="0 seconds"), "within"),
        (lambda: op.DropLate(alarm_above=2), "alarm_above"),
    ],
)
def test_an_invalid_policy_for_late_rows_is_rejected(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


@pytest.mark.parametrize("topic", ["a b", "..", "x" * 250, None, "a/b"])
def test_a_side_output_needs_a_valid_topic(topic: Any) -> None:
    with pytest.raises(op.BadOperator, match="SideOutput: topic") as rejected:
        op.SideOutput(topic)
    assert rejected.value.hint


TOPIC = op.SideOutput("clicks.late")


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        (None, None),
        (op.DropLate(), None),
        (op.SideOutput(), op.SideOutput("")),
        (TOPIC, TOPIC),
        (op.Correct(within="1 hour"), None),
        (op.Correct(within="1 hour", beyond=TOPIC), TOPIC),
    ],
)
def test_rows_that_no_window_accepts_go_to_the_side_output(
    late: Late | None, expected: op.SideOutput | None
) -> None:
    assert side_output(late) == expected


def test_the_allowed_lateness_is_a_duration() -> None:
    assert op.Correct(within="1 hour 30 minutes").within_us == 5_400_000_000
