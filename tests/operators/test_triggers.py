"""Triggers: when panes are emitted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest

from headrace import operators as op
from headrace.operators.state.run import NEVER
from headrace.operators.triggers import Condition, Firing, When


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Trigger(early=0), "early"),
        (lambda: op.Trigger(early="soon"), "early"),
        (lambda: op.Trigger(late="0 seconds"), "late"),
        (lambda: op.Trigger(panes="some"), "panes"),  # type: ignore[arg-type]
        (lambda: op.Trigger(on_time="no"), "on_time"),  # type: ignore[arg-type]
        (lambda: op.Trigger(late=0), "late"),
        (lambda: op.AfterCount(0), "rows"),
        (lambda: op.AfterDelay("soon"), "delay"),
        (lambda: op.AfterAny(5), "conditions"),
        (lambda: op.AfterAll(5, op.AfterEach(1, 2)), "conditions"),  # type: ignore[arg-type]
        (lambda: op.AfterEach(), "steps"),
        (lambda: op.AfterEach(op.Repeatedly(1), 2), "steps"),
        (lambda: op.AfterEach(op.AfterEach(1), 2), "steps"),  # type: ignore[arg-type]
        (lambda: op.Once(op.Repeatedly(1)), "condition"),  # type: ignore[arg-type]
        (lambda: op.Repeatedly(op.AfterEach(1, op.Repeatedly(2))), "condition"),
    ],
)
def test_an_invalid_trigger_is_rejected(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


@pytest.mark.parametrize(
    ("when", "steps", "repeats_from"),
    [
        (100, [op.AfterCount(100)], 0),
        ("10 seconds", [op.AfterDelay("10 seconds")], 0),
        (timedelta(seconds=1), [op.AfterDelay(timedelta(seconds=1))], 0),
        (op.AfterAny(100, "1 minute"), [op.AfterAny(op.AfterCount(100), op.AfterDelay("1 minute"))], 0),
        (op.Repeatedly(op.AfterAll(1, "1 minute")), [op.AfterAll(1, "1 minute")], 0),
        (op.Once(5), [op.AfterCount(5)], None),
        (op.AfterEach(1, 10), [op.AfterCount(1), op.AfterCount(10)], None),
        (op.AfterEach(1, op.Repeatedly(10)), [op.AfterCount(1), op.AfterCount(10)], 1),
        (op.Repeatedly(op.AfterEach(1, 10)), [op.AfterCount(1), op.AfterCount(10)], 0),
    ],
)
def test_a_trigger_is_a_sequence_of_conditions(
    when: When, steps: list[Condition], repeats_from: int | None
) -> None:
    firing = Firing(steps=tuple(steps), repeats_from=repeats_from)
    assert op.Trigger(early=when).early_firing == op.Trigger(late=when).late_firing == firing


def test_each_batch_with_late_rows_has_a_pane_by_default() -> None:
    assert op.Trigger().early_firing is None
    assert op.Trigger().late_firing == op.Trigger(late=1).late_firing
    assert op.Trigger(late=None).late_firing is None


def test_conditions_of_a_pane() -> None:
    """The processing times from which each of five panes is due: by its rows, and the time of the first of them."""
    rows, first_us = np.array([1, 2, 3, 2, 3]), np.array([50, 50, 50, 10, 10])

    def due(condition: Condition) -> list[int | None]:
        return [None if each == NEVER else each for each in condition.met_us(rows, first_us).tolist()]

    delay = op.AfterDelay(timedelta(microseconds=20))
    assert due(op.AfterCount(3)) == [None, None, 50, None, 10]
    assert due(delay) == [70, 70, 70, 30, 30]
    assert due(op.AfterAny(3, delay)) == [70, 70, 50, 30, 10]
    assert due(op.AfterAll(3, delay)) == [None, None, 70, None, 30]
    assert due(op.AfterAll(2, op.AfterAny(3, delay))) == [None, 70, 50, 30, 10]
