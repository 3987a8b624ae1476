"""Text from other people, made safe to print: a name must neither start a new line nor control the terminal."""

from __future__ import annotations

import json
import re
from typing import Any

# Control characters of ASCII and Latin-1 (terminals interpret both), line separators, marks that change the text
# direction, and halves of surrogate pairs, which can't be encoded.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNPRINTABLE_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with escapes such as `\n` and `\x1b` instead of unprintable characters."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    """Like `printable`, for text of several lines, such as an error message."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(value: Any, *, indent: int | None = None) -> str:
    """JSON of the same value, with escapes instead of unprintable characters."""
    text = json.dumps(value, ensure_ascii=False, default=str, indent=indent)
    return _UNPRINTABLE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
