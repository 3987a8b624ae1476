"""The states of a key: each transition, what time does, and that the order of counted records does not matter."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.alerts.key_state import (
    TRANSITIONS,
    Change,
    ChangeKind,
    KeyState,
    Observed,
    Phase,
    Rule,
    Signal,
    advance,
    forgotten_ms,
    next_due,
    observe,
)


def run(
    rule: Rule, *records: tuple[int, bool] | tuple[int, bool, bool], until_ms: int = 0
) -> list[tuple[str, int]]:
    """The changes after these records (time, meets[, resolves]), and after time has passed."""
    state = KeyState()
    found: list[Change] = []
    for at_ms, meets, *resolves in records:
        state, changes = observe(
            rule, state, Observed(at_ms=at_ms, meets=meets, resolves=bool(resolves and resolves[0]))
        )
        found += changes
    _, changes = advance(rule, state, until_ms)
    return [(each.kind.value, each.at_ms) for each in (*found, *changes)]


def test_table_has_every_signal_that_a_phase_can_get() -> None:
    """A key is pending before it fires, and nothing but pending can elapse."""
    assert set(TRANSITIONS) == set(itertools.product(Phase, Signal)) - {
        (Phase.IDLE, Signal.ELAPSED),
        (Phase.FIRING, Signal.ELAPSED),
    }
    assert {after for (before, _), after in TRANSITIONS.items() if before is Phase.IDLE} == {
        Phase.IDLE,
        Phase.PENDING,
    }


def test_key_fires_at_once_and_resolves_by_a_record_that_does_not_meet_the_condition() -> None:
    assert run(Rule(), (1, True), (2, True), (3, False)) == [("firing", 1), ("resolved", 3)]


def test_key_that_clears_before_its_minimum_duration_never_fires() -> None:
    rule = Rule(for_ms=10)
    assert run(rule, (0, True), (9, False), (20, True), until_ms=29) == [
        ("pending", 0),
        ("cancelled", 9),
        ("pending", 20),
    ]
    assert run(rule, (0, True), (5, True), until_ms=10) == [("pending", 0), ("firing", 10)]


def test_record_that_is_older_than_the_newest_of_its_key_changes_nothing() -> None:
    assert run(Rule(), (10, True), (5, False)) == [("firing", 10), ("late", 5)]
    assert run(Rule(), (10, True), (20, False), (15, True)) == [
        ("firing", 10),
        ("resolved", 20),
        ("late", 15),
    ]


def test_resolve_when_ignores_other_records() -> None:
    rule = Rule(has_resolve_when=True)
    assert run(rule, (0, True), (1, False), (2, False, True)) == [("firing", 0), ("resolved", 2)]


def test_resolve_after_counts_from_the_last_record_that_met_the_condition() -> None:
    rule = Rule(resolve_after_ms=100)
    assert run(rule, (0, True), (50, False), (90, True), until_ms=189) == [("firing", 0)]
    assert run(rule, (0, True), (90, True), until_ms=190) == [("firing", 0), ("resolved", 190)]


def test_resolve_when_and_resolve_after_resolve_by_what_comes_first() -> None:
    rule = Rule(resolve_after_ms=100, has_resolve_when=True)
    assert run(rule, (0, True), (10, False, True), until_ms=1000) == [("firing", 0), ("resolved", 10)]
    assert run(rule, (0, True), (10, False), until_ms=1000) == [("firing", 0), ("resolved", 100)]


def test_count_fires_with_enough_records_within_the_time_and_resolves_when_there_are_fewer() -> None:
    rule = Rule(at_least=3, within_ms=10)
    assert run(rule, (0, True), (5, True), (10, True), until_ms=100) == []
    assert run(rule, (0, True), (5, True), (6, False), (9, True), until_ms=10) == [
        ("firing", 9),
        ("resolved", 10),
    ]


def test_count_with_minimum_duration_needs_enough_records_all_along() -> None:
    rule = Rule(at_least=2, within_ms=10, for_ms=20)
    assert run(rule, (0, True), (5, True), until_ms=100) == [("pending", 5), ("cancelled", 10)]
    records = [(at_ms, True) for at_ms in range(0, 40, 5)]
    assert run(rule, *records, until_ms=40)[:2] == [("pending", 5), ("firing", 25)]


def test_absence_fires_after_the_last_record_and_resolves_by_the_next() -> None:
    rule = Rule(absent_for_ms=10)
    assert run(rule, (5, True), until_ms=14) == []
    assert run(rule, (5, True), until_ms=15) == [("firing", 15)]
    assert run(rule, (5, True), (40, True), until_ms=49) == [("firing", 15), ("resolved", 40)]


def test_idle_key_is_forgotten_only_when_no_late_record_can_matter() -> None:
    rule = Rule(at_least=3, within_ms=500_000)
    assert forgotten_ms(rule, KeyState(seen_ms=100)) == 500_100
    assert forgotten_ms(Rule(absent_for_ms=5), KeyState(seen_ms=100)) is None
    assert forgotten_ms(rule, KeyState(phase=Phase.FIRING)) is None


rules = st.builds(
    Rule,
    for_ms=st.sampled_from([0, 3, 20]),
    resolve_after_ms=st.sampled_from([None, 5, 30]),
    has_resolve_when=st.booleans(),
) | st.builds(Rule, at_least=st.integers(2, 4), within_ms=st.integers(1, 30), for_ms=st.sampled_from([0, 5]))
records = st.lists(
    st.builds(Observed, at_ms=st.integers(0, 100), meets=st.booleans(), resolves=st.booleans()), max_size=25
)


@given(rules, records)
def test_changes_of_any_records_are_a_path_through_the_table(rule: Rule, seen: list[Observed]) -> None:
    state, phase = KeyState(), Phase.IDLE
    after = {
        ChangeKind.PENDING: (Phase.IDLE, Phase.PENDING),
        ChangeKind.CANCELLED: (Phase.PENDING, Phase.IDLE),
        ChangeKind.RESOLVED: (Phase.FIRING, Phase.IDLE),
        ChangeKind.FIRING: (Phase.PENDING if rule.for_ms else Phase.IDLE, Phase.FIRING),
    }
    for record in seen:
        state, changes = observe(rule, state, record)
        for change in changes:
            if change.kind is not ChangeKind.LATE:
                before, next_phase = after[change.kind]
                assert phase is before
                phase = next_phase
        assert state.phase is phase
        due = next_due(rule, state)
        assert due is None or due[0] > record.at_ms or due[0] >= state.since_ms


@given(st.lists(st.integers(0, 200), max_size=8), st.integers(2, 4), st.integers(1, 60), st.data())
def test_order_of_counted_records_does_not_matter(
    times: list[int], at_least: int, within_ms: int, data: st.DataObject
) -> None:
    rule = Rule(at_least=at_least, within_ms=within_ms)
    ends = set()
    for order in (sorted(times), data.draw(st.permutations(times))):
        state = KeyState()
        for at_ms in order:
            state, _ = observe(rule, state, Observed(at_ms=at_ms, meets=True))
        state, _ = advance(rule, state, max(times, default=0))
        ends.add((state.phase, state.times))
    assert len(ends) == 1


@given(rules, records, st.integers(0, 300))
def test_time_in_steps_is_time_at_once(rule: Rule, seen: list[Observed], step_ms: int) -> None:
    state = KeyState()
    for record in seen:
        state, _ = observe(rule, state, record)
    in_steps, at_once = state, advance(rule, state, 400)
    found: list[Change] = []
    for now_ms in (step_ms, 300, 400):
        in_steps, changes = advance(rule, in_steps, now_ms)
        found += changes
    assert (in_steps, tuple(found)) == at_once
