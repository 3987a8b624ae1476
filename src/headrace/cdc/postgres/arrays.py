"""Arrays from PostgreSQL's text to lists: several dimensions, nulls, quotes, lower bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def parse_array(text: str, convert: Callable[[str], Any] | None, delimiter: str = ",") -> list[Any]:
    """`convert` gets the text of each item that is not null; without it, items stay texts."""
    if text[0] == "[":
        # Lower bounds other than 1: `[0:1]={7,8}`. A list has none.
        text = text[text.index("{") :]
    if '"' not in text and text.find("{", 1) < 0:
        inner = text[1:-1]
        items: list[str] = inner.split(delimiter) if inner else []
        if convert is None:
            return [None if item == "NULL" else item for item in items]
        return [None if item == "NULL" else convert(item) for item in items]
    return _nested(text, convert, delimiter)


def _nested(text: str, convert: Callable[[str], Any] | None, delimiter: str) -> list[Any]:
    root: list[Any] = []
    stack = [root]
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == "{":
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
            at += 1
        elif letter == "}":
            stack.pop()
            at += 1
        elif letter == delimiter:
            at += 1
        elif letter == '"':
            item, at = _quoted(text, at + 1)
            stack[-1].append(item if convert is None else convert(item))
        else:
            end = at
            while text[end] not in (delimiter, "}"):
                end += 1
            item = text[at:end]
            stack[-1].append(None if item == "NULL" else item if convert is None else convert(item))
            at = end
    [array] = root
    assert isinstance(array, list)
    return array


def _quoted(text: str, at: int) -> tuple[str, int]:
    """An item in quotes, and the position after them. A backslash stands before a quote and before itself."""
    parts = []
    while True:
        end = at
        while text[end] not in '"\\':
            end += 1
        parts.append(text[at:end])
        if text[end] == '"':
            return "".join(parts), end + 1
        parts.append(text[end + 1])
        at = end + 2
