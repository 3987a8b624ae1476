"""The step of windows beside an oracle: any rows, any order, any split into batches, state restored in between."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.operators.folds import CollectFold, CompletenessFold, CountFold, Fold
from headrace.operators.state.step import Lift, advance
from headrace.operators.state.table import StateTable
from headrace.operators.windows.lifting import ClockLift, ClockSlots, InstantLift, RowLift, SessionLift
from headrace.operators.windows.panes import PaneRules, PaneShape, PaneStep
from headrace.operators.windows.sliding_panes import SlidingStep
from tests.operators.step_times import step_time
from tests.operators.windows.pane_oracle import Oracle, Row, Rules, clock, results
from tests.operators.windows.stepping import (
    KEYS,
    Windows,
    as_us,
    batches,
    composed_rules,
    pane_rules,
    require_agreement,
    rules,
    table_of,
)


@settings(max_examples=100)
@given(batches(), rules, st.sampled_from([(10, 10, 0), (10, 4, 0), (20, 5, 3), (3, 10, 2)]), st.booleans())
def test_fixed_windows_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]], rules: Rules, shape: tuple[int, int, int], restarts: bool
) -> None:
    length, every, offset = shape
    oracle = Oracle(rules, assign=clock(*shape))
    windows = Windows(rules, slots=ClockSlots(length_us=length, every_us=every, offset_us=offset))
    require_agreement(windows, oracle, batches, restarts=restarts)


@settings(max_examples=150)
@given(batches(), composed_rules, st.sampled_from([(10, 10, 0), (20, 5, 3)]), st.booleans(), st.booleans())
def test_windows_with_composed_triggers_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]],
    rules: Rules,
    shape: tuple[int, int, int],
    are_sessions: bool,
    restarts: bool,
) -> None:
    if are_sessions and rules.panes != "accumulating":
        oracle, windows = Oracle(rules, gap=7), Windows(rules, gap=7)
    else:
        length, every, offset = shape
        oracle = Oracle(rules, assign=clock(*shape))
        windows = Windows(rules, slots=ClockSlots(length_us=length, every_us=every, offset_us=offset))
    require_agreement(windows, oracle, batches, restarts=restarts)


def test_discarding_panes_of_merged_sessions_add_up() -> None:
    """Each row is in one pane, and the pane has the bounds of the session at that time."""
    windows = Windows(Rules(within=10**6, early_rows=1, panes="discarding"), gap=10)
    steps: list[tuple[list[Row], float]] = [
        ([("a", 0, 1), ("a", 15, 2)], -math.inf),
        ([("a", 8, 3)], 5),
        ([], 25),
        ([("a", 30, 4)], 26),
    ]
    emitted = [windows.work(*step, now) for now, step in enumerate(steps)]
    assert [[(row[1], row[2], row[4], row[-3]) for row in each] for each in emitted] == [
        [(0, 10, 1, "early"), (15, 25, 2, "early")],
        [(0, 25, 3, "early")],
        [],
        [(30, 40, 4, "early")],
    ]


def test_state_of_the_first_version_is_migrated() -> None:
    """A window waits for the delay of its early pane."""
    step = PaneStep(PaneShape(keys=KEYS, folds=[("n", CountFold())], rules=PaneRules()))
    old = step.state_schema.empty_table().drop_columns(["first_us", "fired"])
    one = {name: [None] for name in old.column_names} | {
        "id": [b"0" * 16],
        "start": [0],
        "end": [10],
        "rows": [1],
        "due_us": [10],
        "wake_us": [77],
        "is_done": [False],
    }
    migrated = step.migrate(pa.table(one, schema=old.schema), 1)
    assert migrated.schema == step.state_schema
    assert migrated.select(["first_us", "fired"]).to_pylist() == [{"first_us": 77, "fired": 0}]


class WindowsWithLoss(Windows):
    """Each row reports its value as the number of events that are missing before it."""

    def rows_in(self, rows: list[Row]) -> pa.Table:
        counts = [{"received": 1, "missing": missing_before(row)} for row in rows]
        kind = pa.struct([("received", pa.int64()), ("missing", pa.int64())])
        return table_of(rows, a1=pa.array(counts, type=kind))


def missing_before(row: Row) -> int:
    return abs(int(row[2] or 0))


@settings(max_examples=60)
@given(batches(), rules.filter(lambda each: each.panes != "discarding"), st.booleans())
def test_completeness_is_the_share_of_events_that_arrived_before_their_window_closed(
    batches: list[tuple[list[Row], float, int]], rules: Rules, restarts: bool
) -> None:
    windows = WindowsWithLoss(
        rules,
        slots=ClockSlots(length_us=10, every_us=5),
        named_folds=[("n", CountFold()), ("complete", CompletenessFold())],
    )
    came: Counter[tuple[str, int]] = Counter()
    expected: Counter[tuple[str, int]] = Counter()
    missing: Counter[tuple[str, int]] = Counter()
    for rows, watermark, now in batches:
        for row in rows:
            key, time, _ = row
            for start, end in clock(10, 5, 0)(time):
                if end + rules.within > watermark:
                    came[key, start] += 1
                    expected[key, start] += 1 + missing_before(row)
                    missing[key, start] += missing_before(row) + (end <= watermark)
        for result in windows.work_to_rows(rows, watermark, now):
            if result["op"] == "+":
                at = result["key"], as_us(result["window_start"])
                assert result["n"] == came[at]
                assert result["complete"] == pytest.approx(1 - missing[at] / expected[at])
        if restarts:
            windows.restart()


@settings(max_examples=100)
@given(batches(), rules.filter(lambda each: each.panes != "accumulating"), st.integers(1, 15), st.booleans())
def test_sessions_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]], rules: Rules, gap: int, restarts: bool
) -> None:
    oracle = Oracle(rules, gap=gap)
    windows = Windows(rules, gap=gap)
    require_agreement(windows, oracle, batches, restarts=restarts)


@settings(max_examples=60)
@given(batches(), rules, st.integers(1, 15))
def test_corrected_results_equal_the_batch_result(
    batches: list[tuple[list[Row], float, int]], rules: Rules, gap: int
) -> None:
    """For any order and split, the emitted rows minus the retracted rows are the result over all rows."""
    rules.within, rules.panes = 10**6, "retracting"
    every_row = [row for rows, _, _ in batches for row in rows]
    for windows, expected in [
        (Windows(rules, slots=ClockSlots(length_us=10, every_us=10)), tumbled(every_row, 10)),
        (Windows(rules, gap=gap), sessions(every_row, gap)),
    ]:
        current: Counter[tuple[Any, ...]] = Counter()
        for batch in batches:
            for row in windows.work(*batch):
                current[row[:-3]] += 1 if row[-1] == "+" else -1
                assert current[row[:-3]] >= 0 or row[-1] == "-"
            assert all(count >= 0 for count in current.values()), "retracted a row that was never emitted"
        assert +current == Counter(expected)


def tumbled(rows: list[Row], length: int) -> list[tuple[Any, ...]]:
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row[0], row[1] // length * length), []).append(row)
    return [(key, start, start + length, *results(inside)) for (key, start), inside in groups.items()]


def sessions(rows: list[Row], gap: int) -> list[tuple[Any, ...]]:
    found = []
    for key in {row[0] for row in rows}:
        session: list[Row] = []
        for row in [*sorted((each for each in rows if each[0] == key), key=lambda each: each[1]), None]:
            if row is None or (session and row[1] >= session[-1][1] + gap):
                found.append((key, session[0][1], session[-1][1] + gap, *results(session)))
                session = []
            if row is not None:
                session.append(row)
    return found


@pytest.mark.parametrize("late", [False, True])
def test_a_row_between_two_sessions_merges_them(late: bool) -> None:
    windows = Windows(Rules(within=10**6), gap=10)
    first = windows.work([("a", 0, 1), ("a", 15, 2)], -math.inf, 1)
    assert first == []
    if late:
        assert [row[1:4] for row in windows.work([], 50, 2)] == [(0, 10, 1), (15, 25, 1)]
    after = windows.work([("a", 8, 3)], 50 if late else 12, 3)
    if late:
        assert sorted((row[-1], *row[1:4]) for row in after) == [
            ("+", 0, 25, 3),
            ("-", 0, 10, 1),
            ("-", 15, 25, 1),
        ]
    else:
        assert after == []
        assert [row[1:4] for row in windows.work([], 25, 4)] == [(0, 25, 3)]


def test_a_step_without_input_changes_nothing() -> None:
    windows = Windows(Rules(within=5), slots=ClockSlots(length_us=10, every_us=10))
    windows.work([("a", 5, 1)], -math.inf, 1)
    before = windows.table
    assert windows.work([], 9, 2) == []
    assert windows.table is before


LENGTH, EVERY, GAP = 10, 5, 8
LATE_FOLDS: list[tuple[str, Fold]] = [("n", CountFold()), ("all", CollectFold(pa.int64(), count_max=9))]

Late = tuple[str, int, int, int]
"""A row, the bounds of a window, and the watermark when it arrived."""


def windows_of(kind: str, time: int) -> list[tuple[int, int, int]]:
    """Start and end as shown, and the watermark at which the window closes."""
    if kind == "hopping":
        return [(start, end, end) for start, end in clock(LENGTH, EVERY)(time)]
    if kind == "session":
        return [(time, time + GAP, time + GAP)]
    return [(time - LENGTH, time, time + 1)]


def step_of(kind: str, rules: PaneRules) -> tuple[PaneStep, Lift]:
    shape = PaneShape(keys=KEYS, folds=LATE_FOLDS, rules=rules)
    if kind == "hopping":
        step = PaneStep(shape)
        return step, ClockLift(step, ClockSlots(length_us=LENGTH, every_us=EVERY))
    if kind == "session":
        step = PaneStep(shape, merges_overlaps=True)
        return step, RowLift(step, GAP)
    step = SlidingStep(shape, length_us=LENGTH)
    return step, InstantLift(step, LENGTH)


def rows_table(rows: list[Row], names: list[str]) -> pa.Table:
    """The input rows of the lift: the values of both folds, and the row itself."""
    table = table_of(rows)
    columns = [name for name in table.column_names if not (name[0] == "a" and name[1:].isdigit())]
    values = pa.array([row[2] for row in rows], pa.int64())
    kept = table.select(columns).append_column("a1", values)
    return kept.append_column("a2", pa.array(names, pa.string()))


@pytest.mark.parametrize("kind", ["hopping", "session", "sliding"])
@settings(max_examples=60)
@given(batches(), st.sampled_from([0, 5, 40]))
def test_the_late_rows_are_returned_exactly(
    kind: str, batches: list[tuple[list[Row], float, int]], within: int
) -> None:
    step, lift = step_of(kind, PaneRules(within_us=within, keeps_late=True))
    table = StateTable(step.state_schema)
    for number, (rows, watermark, now) in enumerate(batches):
        names = [f"{number}-{position}" for position in range(len(rows))]
        expected: Counter[Late] = Counter(
            (name, start, end, int(watermark))
            for name, row in zip(names, rows, strict=True)
            for start, end, over in windows_of(kind, row[1])
            if over + within <= watermark
        )
        behind = sum(over <= watermark for row in rows for _, _, over in windows_of(kind, row[1]))
        at = step_time(watermark, now)
        done = advance(step, table, lift(rows_table(rows, names))[0], at)
        table = done.table
        result = done.result
        kept = [] if result.late is None else result.late.to_pylist()
        assert Counter(map(late, kept)) == expected
        pairs = sum(len(windows_of(kind, row[1])) for row in rows)
        assert (result.rows_in, result.corrected_rows) == (pairs, behind - len(kept))
        assert result.late_rows == len(kept)
        assert "originals" not in table.schema.names


@settings(max_examples=150)
@given(batches(), rules.filter(lambda each: each.panes != "accumulating"), st.integers(0, 20), st.data())
def test_sessions_that_tasks_merge_are_those_of_rows_that_stay_apart(
    batches: list[tuple[list[Row], float, int]], rules: Rules, ahead_us: int, data: st.DataObject
) -> None:
    """The tasks know a watermark that may be ahead of the one that decides which rows are late."""
    shape = PaneShape(keys=KEYS, folds=LATE_FOLDS, rules=replace(pane_rules(rules), keeps_late=True))
    step = PaneStep(shape, merges_overlaps=True)
    table, other = StateTable(step.state_schema), StateTable(step.state_schema)
    for rows, watermark, now in batches:
        at = step_time(watermark, now)
        apart, merged = RowLift(step, GAP), SessionLift(step, GAP, partial(int, at.late_us + ahead_us))
        names = [str(position) for position in range(len(rows))]
        cut = data.draw(st.integers(0, len(rows)))
        tasks = [(rows[:cut], names[:cut]), (rows[cut:], names[cut:])]
        one, two = (
            advance(step, state, pa.concat_tables([lift(rows_table(*task))[0] for task in tasks]), at)
            for state, lift in ((table, apart), (other, merged))
        )
        table, other = one.table, two.table
        assert shown(two.result.output) == shown(one.result.output)
        assert shown(two.result.late) == shown(one.result.late)
        counts = [(each.rows_in, each.corrected_rows, each.late_rows) for each in (one.result, two.result)]
        assert counts[0] == counts[1]


def shown(rows: pa.Table | None) -> list[str]:
    return sorted(map(str, rows.to_pylist())) if rows is not None else []


def late(row: dict[str, Any]) -> Late:
    start, end, watermark = (
        row[name].timestamp() * 1e6 for name in ("window_start", "window_end", "watermark")
    )
    return row["original"], round(start), round(end), round(watermark)
