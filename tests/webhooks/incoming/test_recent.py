"""Ids that were accepted: known for the window, and never more than the bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.incoming.recent import RecentKeys


def test_key_is_known_for_the_window() -> None:
    recent = RecentKeys(window_ms=1_000, keys_max=10)
    recent.add([b"a"], 5_000)
    assert recent.has_any([b"x", b"a"], 5_999)
    assert not recent.has_any([b"a"], 6_000)
    assert not recent.has_any([b"x"], 5_000)
    assert not recent.has_any([], 5_000)


def test_key_that_comes_again_is_known_from_its_last_time() -> None:
    recent = RecentKeys(window_ms=1_000, keys_max=10)
    for at_ms in (5_000, 5_500, 5_200):
        recent.add([b"a"], at_ms)
    assert recent.has_any([b"a"], 6_400)
    assert len(recent) == 1


def test_oldest_keys_make_room_for_new_ones() -> None:
    recent = RecentKeys(window_ms=1_000, keys_max=3)
    for number in range(5):
        recent.add([b"%d" % number], number)
    assert [recent.has_any([b"%d" % number], 5) for number in range(5)] == [False, False, True, True, True]


def test_keys_beyond_the_window_need_no_memory() -> None:
    recent = RecentKeys(window_ms=1_000, keys_max=1_000_000)
    for number in range(5_000):
        recent.add([b"%d" % number], number * 10)
    assert len(recent) == 100


def test_smaller_bound_holds_from_the_next_key_on() -> None:
    recent = RecentKeys(window_ms=1_000, keys_max=10)
    recent.add([b"%d" % number for number in range(10)], 5)
    recent.resize(window_ms=1_000, keys_max=3)
    recent.add([b"x"], 6)
    assert len(recent) == 3
    assert recent.has_any([b"x"], 6)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), max_size=60))
def test_every_key_of_the_window_is_known_if_there_is_room(steps: list[tuple[int, int]]) -> None:
    recent, added, now_ms = RecentKeys(window_ms=100, keys_max=1_000), {}, 0
    for key, pause_ms in steps:
        now_ms += pause_ms
        recent.add([b"%d" % key], now_ms)
        added[key] = now_ms
    for key, at_ms in added.items():
        assert recent.has_any([b"%d" % key], now_ms) == (now_ms - at_ms < 100)
