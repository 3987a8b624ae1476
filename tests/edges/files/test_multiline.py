"""Stack traces as one event each."""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.files.multiline import Multiline

TRACE = [b"Traceback (most recent call last):", b'  File "a.py", line 1', b"ZeroDivisionError"]


def starts(expression: str) -> Callable[[bytes], object]:
    return re.compile(expression.encode()).search


def numbered(lines: list[bytes]) -> list[tuple[int, bytes]]:
    return [*enumerate(lines)]


def test_event_lasts_until_the_first_line_of_the_next() -> None:
    multiline = Multiline(starts(r"^\d{4}-"), bytes_max=1000)

    ended = multiline.add(numbered([b"2026-01-01 error", *TRACE, b"2026-01-01 fine", b"2026-01-02"]))

    assert ended == [(0, b"\n".join([b"2026-01-01 error", *TRACE])), (4, b"2026-01-01 fine")]
    assert multiline.start == 5
    assert multiline.finish() == [(5, b"2026-01-02")]
    assert multiline.start is None


def test_lines_before_the_first_start_are_an_event() -> None:
    multiline = Multiline(starts("^start"), bytes_max=1000)

    assert multiline.add(numbered([b"rest", b"of another", b"start"])) == [(0, b"rest\nof another")]


def test_event_over_the_bound_is_cut_after_a_line_and_counted() -> None:
    multiline = Multiline(starts("^start"), bytes_max=12)

    ended = multiline.add(numbered([b"start", b"second", b"third", b"4", b"start"]))

    assert ended == [(0, b"start\nsecond")]
    assert multiline.cut == 1


@given(st.lists(st.sampled_from([b"start", b"start \xff", b" more", b""])))
def test_no_line_is_lost(lines: list[bytes]) -> None:
    multiline = Multiline(starts("^start"), bytes_max=1000)

    events = multiline.add(numbered(lines)) + multiline.finish()

    assert [line for _, event in events for line in event.split(b"\n")] == lines
    assert all(event.startswith(b"start") for _, event in events[1:])
