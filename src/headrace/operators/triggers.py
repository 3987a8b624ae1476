"""Triggers: when a window emits panes, and how a pane relates to the previous one.

A window emits its *on-time* pane when the watermark passes its end. It may emit *early* panes before that, and *late*
panes after it, within the allowed lateness of `late=Correct(...)`. Triggers are evaluated in every micro-batch.

The conditions of a pane (`AfterCount`, `AfterDelay`, `AfterAny`, `AfterAll`) are about the rows since the previous
pane. `AfterEach`, `Repeatedly` and `Once` put conditions in a sequence, one for each pane.
"""

from __future__ import annotations

import abc
import functools
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
from msgspec import Struct

from headrace.operators.operator import BadOperator, Duration, duration_us, require_kind, require_one_of
from headrace.operators.state.ids import Ints
from headrace.operators.state.run import NEVER

Panes = Literal["retracting", "accumulating", "discarding"]
"""How a pane relates to the previous pane of its window. `retracting`: the previous pane is retracted (`op` is `-`)
and the complete result so far is emitted (`+`). `accumulating`: the complete result so far is emitted and replaces the
previous pane. `discarding`: a pane has only the rows since the previous pane, and the reader adds up the panes."""


class Pane(StrEnum):
    EARLY = "early"
    ON_TIME = "on time"
    LATE = "late"


class Condition(abc.ABC):
    """When a pane is emitted, by the rows since the previous pane and the time since the first of them."""

    __slots__ = ()

    @abc.abstractmethod
    def met_us(self, rows: Ints, first_us: Ints) -> Ints:
        """The processing time from which the condition is met; NEVER if it needs more rows."""

    @property
    @abc.abstractmethod
    def has_delay(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class AfterCount(Condition):
    """After a number of rows since the previous pane.

    rows   the number of rows
    """

    rows: int

    def __post_init__(self) -> None:
        rows: object = self.rows
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise BadOperator("AfterCount", "rows", f"is {self.rows!r}", hint="set at least 1 row")

    def met_us(self, rows: Ints, first_us: Ints) -> Ints:
        return np.where(rows >= self.rows, first_us, NEVER)

    @property
    def has_delay(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class AfterDelay(Condition):
    """After a duration in processing time since the first row after the previous pane.

    delay   the duration
    """

    delay: Duration

    def __post_init__(self) -> None:
        _ = self.delay_us

    @property
    def delay_us(self) -> int:
        return duration_us(self.delay, operator="AfterDelay", field="delay")

    def met_us(self, rows: Ints, first_us: Ints) -> Ints:
        return np.where(first_us < NEVER - self.delay_us, first_us + self.delay_us, NEVER)

    @property
    def has_delay(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, init=False)
class _Several(Condition):
    conditions: tuple[Condition, ...]

    def __init__(self, *conditions: Condition | Duration | int) -> None:
        kind = type(self).__name__
        if len(conditions) < 2:
            raise BadOperator(
                kind, "conditions", "are fewer than two", hint=f'such as {kind}(100, "10 seconds")'
            )
        read = tuple(condition_of(each, operator=kind, field="conditions") for each in conditions)
        object.__setattr__(self, "conditions", read)

    @property
    def has_delay(self) -> bool:
        return any(each.has_delay for each in self.conditions)


@dataclass(frozen=True, slots=True, init=False)
class AfterAny(_Several):
    """As soon as one of the conditions is met.

    op.AfterAny(100, "10 seconds")
    """

    def met_us(self, rows: Ints, first_us: Ints) -> Ints:
        return functools.reduce(np.minimum, (each.met_us(rows, first_us) for each in self.conditions))


@dataclass(frozen=True, slots=True, init=False)
class AfterAll(_Several):
    """As soon as all conditions are met.

    op.AfterAll(100, "10 seconds")
    """

    def met_us(self, rows: Ints, first_us: Ints) -> Ints:
        return functools.reduce(np.maximum, (each.met_us(rows, first_us) for each in self.conditions))


@dataclass(frozen=True, slots=True, init=False)
class AfterEach:
    """One condition after the other: the first pane by the first condition, the next pane by the next one. After the
    last one there are no more such panes, unless it is `Repeatedly(...)`.

    op.AfterEach(1, 10, op.Repeatedly("1 minute"))
    """

    steps: tuple[Condition, ...]
    repeats_last: bool

    def __init__(self, *steps: Condition | Repeatedly | Duration | int) -> None:
        if not steps:
            raise BadOperator("AfterEach", "steps", "are missing", hint="such as AfterEach(1, 10)")
        last = steps[-1]
        repeats_last = isinstance(last, Repeatedly)
        conditions = (*steps[:-1], last.condition if isinstance(last, Repeatedly) else last)
        read = tuple(condition_of(each, operator="AfterEach", field="steps") for each in conditions)
        object.__setattr__(self, "steps", read)
        object.__setattr__(self, "repeats_last", repeats_last)


@dataclass(frozen=True, slots=True, init=False)
class Once(AfterEach):
    """A single pane by this condition.

    op.Once(op.AfterCount(100))
    """

    def __init__(self, condition: Condition | Duration | int) -> None:
        AfterEach.__init__(self, condition_of(condition, operator="Once", field="condition"))


@dataclass(frozen=True, slots=True, init=False)
class Repeatedly:
    """A condition for every pane, or a sequence that starts again after its last condition.

    A condition of `Trigger` is repeated by default, so this is for sequences:

        op.Repeatedly(op.AfterEach(1, 10))
    """

    condition: Condition | AfterEach

    def __init__(self, condition: Condition | AfterEach | Duration | int) -> None:
        if not isinstance(condition, AfterEach):
            condition = condition_of(condition, operator="Repeatedly", field="condition")
        elif condition.repeats_last:
            raise BadOperator(
                "Repeatedly", "condition", "is a sequence that never ends", hint="remove one Repeatedly"
            )
        object.__setattr__(self, "condition", condition)


class Firing(Struct, frozen=True, kw_only=True):
    """The conditions of the panes of a phase, one after the other."""

    steps: tuple[Condition, ...]
    repeats_from: int | None
    """The step that follows the last one; None if there are no more panes."""

    def met_us(self, rows: Ints, first_us: Ints, fired: Ints) -> Ints:
        """The processing time from which each next pane is due; `fired` is the number of panes before it."""
        count = len(self.steps)
        position = fired
        if self.repeats_from is not None:
            again = self.repeats_from + (fired - count) % (count - self.repeats_from)
            position = np.where(fired < count, fired, again)
        met_us = np.full(len(rows), NEVER, dtype=np.int64)
        for number, step in enumerate(self.steps):
            met_us = np.where(position == number, step.met_us(rows, first_us), met_us)
        return met_us

    @property
    def has_delay(self) -> bool:
        return any(each.has_delay for each in self.steps)


EVERY_BATCH = Firing(steps=(AfterCount(1),), repeats_from=0)

When = Duration | int | Condition | AfterEach | Repeatedly
"""When panes are emitted: a duration, a number of rows, a condition or a sequence of conditions."""


def condition_of(given: object, *, operator: str, field: str) -> Condition:
    if isinstance(given, Condition):
        return given
    if isinstance(given, AfterEach | Repeatedly):
        raise BadOperator(
            operator,
            field,
            f"has {type(given).__name__}, which is a sequence of panes and not the condition of one",
            hint="use AfterCount, AfterDelay, AfterAny or AfterAll there",
        )
    if isinstance(given, int):
        if isinstance(given, bool) or given < 1:
            raise BadOperator(operator, field, f"is {given!r} rows", hint="set at least 1 row")
        return AfterCount(given)
    _ = duration_us(given, operator=operator, field=field)  # type: ignore[arg-type]
    return AfterDelay(given)  # type: ignore[arg-type]


def firing_of(when: When, *, operator: str, field: str) -> Firing:
    sequence = when.condition if isinstance(when, Repeatedly) else when
    if not isinstance(sequence, AfterEach):
        return Firing(steps=(condition_of(sequence, operator=operator, field=field),), repeats_from=0)
    ends = None if when is sequence else 0
    return Firing(
        steps=sequence.steps, repeats_from=len(sequence.steps) - 1 if sequence.repeats_last else ends
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a window emits panes.

        op.Trigger(early="10 seconds", late="each")
        op.Trigger(early=op.AfterAny(100, "10 seconds"), late=op.AfterEach(1, op.Repeatedly("1 minute")))

    early     a duration in processing time such as "10 seconds", a number of rows, or a condition: a changed window
              emits a pane after that, and again after that; None for no early panes
    on_time   whether a window emits a pane when the watermark passes its end; without it, rows wait for `late` or for
              the end of the allowed lateness
    late      "each" for a pane in every micro-batch with late rows, or as `early`; rows that are left are emitted at
              the end of the allowed lateness; None for then only
    panes     "retracting" (default), "accumulating" or "discarding"
    """

    early: When | None = None
    on_time: bool = True
    late: When | None = "each"
    panes: Panes = "retracting"

    def __post_init__(self) -> None:
        require_one_of(self.panes, Panes, operator="Trigger", field="panes")
        require_kind(self.on_time, bool, operator="Trigger", field="on_time", hint="set True or False")
        _ = self.early_firing, self.late_firing

    @property
    def early_firing(self) -> Firing | None:
        return None if self.early is None else firing_of(self.early, operator="Trigger", field="early")

    @property
    def late_firing(self) -> Firing | None:
        if self.late is None:
            return None
        if isinstance(self.late, str) and self.late == "each":
            return EVERY_BATCH
        return firing_of(self.late, operator="Trigger", field="late")


def require_trigger(given: object, *, operator: str) -> None:
    """Raise if the trigger of a window is another value. A duration or a number of rows is meant as `early`."""
    field = "late" if isinstance(given, str) and given == "each" else "early"
    meant = repr(given) if isinstance(given, str | int) else "'10 seconds'"
    require_kind(
        given,
        Trigger | None,
        operator=operator,
        field="trigger",
        problem=", which is not a Trigger",
        hint=f"set trigger=op.Trigger({field}={meant})",
    )
