"""Errors that point at a place in the text of a pattern."""

from __future__ import annotations

from headrace.operators.operator import BadOperator

OPERATOR = "MatchRecognize"


class BadPattern(BadOperator):
    """An invalid pattern. The message has the line and the column in its text, and shows the place."""

    def __init__(self, text: str, at: int, problem: str, *, hint: str = "") -> None:
        self.line, self.column = place_of(text, at)
        shown = f"{shown_line(text, at)}\n{' ' * (self.column + 1)}^"
        super().__init__(
            OPERATOR,
            "text",
            f"is invalid at line {self.line}, column {self.column}: {problem}\n{shown}",
            hint=hint,
        )


def place_of(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1."""
    before = text[: max(at, 0)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def shown_line(text: str, at: int) -> str:
    """The line of the place, indented by two; a tab takes one column, as in the count."""
    line, _ = place_of(text, at)
    return "  " + text.split("\n")[line - 1].replace("\t", " ")
