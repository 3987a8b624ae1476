"""Triggers beside what Apache Beam emitted for the same rows and watermarks.

`beam_cases.json` was recorded from the trigger driver of Beam's Python SDK (2.77.0), with an unlimited allowed
lateness. A case has events, either rows `[time, value]` or a watermark, and for each of them the panes `[start, end,
values, timing]`. Delays in processing time are not among them, because that driver compares them with event times. A
case that `differs` has a session that a late row extended beyond the watermark: that driver keeps its late trigger.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace import operators as op
from headrace.operators.folds import CollectFold, Fold
from headrace.operators.state.step import BEGINNING_US
from headrace.operators.triggers import Condition
from headrace.operators.windows.lifting import ClockLift, ClockSlots, SessionLift
from headrace.operators.windows.panes import PaneRules, PaneShape, PaneStep
from tests.operators.windows.pane_oracle import Row
from tests.operators.windows.stepping import KEYS, Stepped, as_us, table_of

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "beam_cases.json").read_text())
FOLDS: list[tuple[str, Fold]] = [("all", CollectFold(pa.int64(), count_max=1000))]


def condition(spec: list[Any]) -> Condition:
    kind, *arguments = spec
    if kind == "count":
        return op.AfterCount(*arguments)
    several: dict[str, type[op.AfterAny] | type[op.AfterAll]] = {"any": op.AfterAny, "all": op.AfterAll}
    return several[kind](*map(condition, arguments))


def when(spec: list[Any] | None) -> Condition | op.Repeatedly | None:
    if spec is None:
        return None
    if spec[0] == "each":
        return op.Repeatedly(op.AfterEach(*map(condition, spec[1:])))
    return condition(spec)


def trigger(spec: dict[str, Any], panes: op.Panes) -> op.Trigger:
    match spec["kind"]:
        case "default":
            return op.Trigger(panes=panes)
        case "repeatedly":
            every = when(spec["condition"])
            return op.Trigger(early=every, on_time=False, late=every, panes=panes)
    return op.Trigger(early=when(spec["early"]), late=when(spec["late"]), panes=panes)


class BeamWindows(Stepped):
    def __init__(self, case: dict[str, Any]) -> None:
        given = trigger(case["trigger"], case["panes"])
        rules = PaneRules(
            within_us=10**9,
            early=given.early_firing,
            on_time=given.on_time,
            late=given.late_firing,
            panes=given.panes,
        )
        kind, *lengths = case["window"]
        shape = PaneShape(keys=KEYS, folds=FOLDS, rules=rules)
        step = PaneStep(shape, merges_overlaps=kind == "session")
        if kind == "session":
            super().__init__(step, SessionLift(step, lengths[0], lambda: self.watermark_us))
        else:
            slots = ClockSlots(length_us=lengths[0], every_us=lengths[-1])
            super().__init__(step, ClockLift(step, slots))

    def rows_in(self, rows: list[Row]) -> pa.Table:
        table = table_of(rows)
        return table.append_column("a0", table.column("a1"))


def emitted_in(case: dict[str, Any]) -> list[list[Any]]:
    windows = BeamWindows(case)
    watermark: float = BEGINNING_US
    emitted = []
    for event in case["events"]:
        rows: list[Row] = [("a", at, value) for at, value in event.get("rows", [])]
        watermark = event.get("watermark", watermark)
        panes = windows.work_to_rows(rows, watermark, 1)
        emitted.append(
            sorted(
                [as_us(row["window_start"]), as_us(row["window_end"]), sorted(row["all"]), row["pane"]]
                for row in panes
            )
        )
    return emitted


def test_panes_are_those_of_beam() -> None:
    for number, case in enumerate(CASES):
        # Beam emits an empty on-time pane also if the panes are discarding.
        skips_empty = case["panes"] == "discarding"
        expected = [[pane for pane in panes if pane[2] or not skips_empty] for panes in case["emitted"]]
        assert (emitted_in(case) == expected) == ("differs" not in case), f"case {number}"
