"""The step of windows beside an oracle: any rows, any order, any split into batches, state read back in between."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.folds import CompletenessFold, CountFold
from headrace.operators.windows.slots import ClockSlots
from tests.operators.windows.pane_oracle import Oracle, Row, Rules, SlidingOracle, clock, results
from tests.operators.windows.stepping import Windows, as_us, batches, require_agreement, rules


@settings(max_examples=100)
@given(batches(), rules, st.sampled_from([(10, 10, 0), (10, 4, 0), (20, 5, 3), (3, 10, 2)]), st.booleans())
def test_fixed_windows_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]], rules: Rules, shape: tuple[int, int, int], restarts: bool
) -> None:
    length, every, offset = shape
    oracle = Oracle(rules, assign=clock(*shape))
    windows = Windows(rules, slots=ClockSlots(length_us=length, every_us=every, offset_us=offset))
    require_agreement(windows, oracle, batches, restarts=restarts)


@settings(max_examples=60)
@given(batches(), rules.filter(lambda each: each.panes != "discarding"), st.booleans())
def test_completeness_is_the_share_of_rows_that_arrived_before_their_window_closed(
    batches: list[tuple[list[Row], float, int]], rules: Rules, restarts: bool
) -> None:
    windows = Windows(
        rules,
        slots=ClockSlots(length_us=10, every_us=5),
        named_folds=[("n", CountFold()), ("complete", CompletenessFold())],
    )
    came: Counter[tuple[str, int]] = Counter()
    came_behind: Counter[tuple[str, int]] = Counter()
    for rows, watermark, now in batches:
        for key, time, _ in rows:
            for start, end in clock(10, 5, 0)(time):
                if end + rules.within > watermark:
                    came[key, start] += 1
                    came_behind[key, start] += end <= watermark
        for row in windows.work_to_rows(rows, watermark, now):
            if row["op"] == "+":
                at = row["key"], as_us(row["window_start"])
                assert row["n"] == came[at]
                assert row["complete"] == pytest.approx(1 - came_behind[at] / came[at])
        if restarts:
            windows.restart()


@settings(max_examples=100)
@given(batches(), rules.filter(lambda each: each.panes == "retracting"), st.integers(1, 15), st.booleans())
def test_sessions_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]], rules: Rules, gap: int, restarts: bool
) -> None:
    oracle = Oracle(rules, gap=gap)
    windows = Windows(rules, gap=gap)
    require_agreement(windows, oracle, batches, restarts=restarts)


@settings(max_examples=100)
@given(batches(), rules.filter(lambda each: each.panes != "discarding"), st.integers(1, 30), st.booleans())
def test_sliding_windows_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]], rules: Rules, within: int, restarts: bool
) -> None:
    oracle = SlidingOracle(rules, within)
    windows = Windows(rules, sliding=within)
    require_agreement(windows, oracle, batches, restarts=restarts)


@settings(max_examples=60)
@given(batches(), rules, st.integers(1, 15))
def test_corrected_results_equal_the_batch_result(
    batches: list[tuple[list[Row], float, int]], rules: Rules, gap: int
) -> None:
    """Whatever the order and the split: what was said, less what was taken back, is the answer over all rows."""
    rules.within, rules.panes = 10**6, "retracting"
    every_row = [row for rows, _, _ in batches for row in rows]
    for windows, expected in [
        (Windows(rules, slots=ClockSlots(length_us=10, every_us=10)), tumbled(every_row, 10)),
        (Windows(rules, gap=gap), sessions(every_row, gap)),
    ]:
        standing: Counter[tuple[Any, ...]] = Counter()
        for batch in batches:
            for row in windows.work(*batch):
                standing[row[:-3]] += 1 if row[-1] == "+" else -1
                assert standing[row[:-3]] >= 0 or row[-1] == "-"
            assert all(count >= 0 for count in standing.values()), "taken back what was never said"
        assert +standing == Counter(expected)


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
