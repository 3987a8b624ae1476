"""Text of others, made safe to show: a name with a newline must not become a line of its own, nor steer a terminal."""

from __future__ import annotations

import json
import re
from typing import Any

# Controls of ASCII and of Latin-1 (a terminal obeys both), separators of lines, marks that turn the direction of what
# follows, and halves of surrogate pairs, which can't be written at all.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNPRINTABLE_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with `\n`, `\x1b` and such in place of what is not for display."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    """The same for text that may have several lines, such as the message of an error."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(value: Any, *, indent: int | None = None) -> str:
    """JSON that reads back as the same value, and shows nothing but text."""
    text = json.dumps(value, ensure_ascii=False, default=str, indent=indent)
    return _UNPRINTABLE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
