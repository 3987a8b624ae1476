"""Errors show the place in the text."""

from __future__ import annotations

import pytest

from headrace.operators.patterns.place import BadPattern, place_of


@pytest.mark.parametrize(
    ("text", "at", "place"),
    [("abc", 0, (1, 1)), ("abc", 2, (1, 3)), ("a\nbc", 2, (2, 1)), ("a\n", 2, (2, 1))],
)
def test_place_is_line_and_column_from_one(text: str, at: int, place: tuple[int, int]) -> None:
    assert place_of(text, at) == place


def test_error_shows_the_line_with_a_mark_below_the_place() -> None:
    error = BadPattern(
        "PATTERN (A)\n\tDEFINE B AS x", 20, "variable 'B' is unknown", hint="the variables are A"
    )
    assert error.message == (
        "MatchRecognize: text is invalid at line 2, column 9: variable 'B' is unknown\n"
        "   DEFINE B AS x\n"
        "          ^"
    )
    assert error.hint == "the variables are A"
    assert (error.line, error.column) == (2, 9)
