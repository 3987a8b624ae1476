"""What is due when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.alerts.schedule import Schedule


def test_each_name_has_one_time() -> None:
    schedule = Schedule()
    schedule.set("a", 10)
    schedule.set("b", 5)
    schedule.set("a", 3)
    schedule.set("c", 1)
    schedule.set("c", None)
    assert schedule.take_due(4, 10) == ["a"]
    assert schedule.take_due(100, 10) == ["b"]
    assert len(schedule) == 0


def test_limit_leaves_the_rest_due() -> None:
    schedule = Schedule()
    for number in range(5):
        schedule.set(str(number), number)
    assert schedule.take_due(100, 2) == ["0", "1"]
    assert schedule.take_due(100, 10) == ["2", "3", "4"]


def test_times_that_change_all_the_time_take_bounded_memory() -> None:
    schedule = Schedule()
    for number in range(100_000):
        schedule.set("a", number)
    assert len(schedule._heap) < 2_000
    assert schedule.due_ms("a") == 99_999


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 20))), st.integers(0, 20))
def test_due_names_are_those_of_a_dictionary(changes: list[tuple[str, int | None]], now_ms: int) -> None:
    schedule, wanted = Schedule(), dict[str, int | None]()
    for name, due_ms in changes:
        schedule.set(name, due_ms)
        wanted[name] = due_ms
    due = {name for name, due_ms in wanted.items() if due_ms is not None and due_ms <= now_ms}
    assert set(schedule.take_due(now_ms, 100)) == due
