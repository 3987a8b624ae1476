"""Text of others on a terminal and in a log: what was meant as a name stays one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.printable import printable, printable_json, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("billing", "billing"),
        ("Grüße, 世界 🙂", "Grüße, 世界 🙂"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[2J\x9b31m\x7f", r"\x1b[2J\x9b31m\x7f"),
        ("a\u2028b\u202ec", r"a\u2028b\u202ec"),
        ("\udcff", r"\udcff"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(alphabet=st.characters(codec=None)))
def test_everything_is_one_line_without_controls(text: str) -> None:
    for shown in (printable(text), printable_json(text)):
        assert len(shown.splitlines()) <= 1
        shown.encode()
        assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in shown)
    assert json.loads(printable_json(text)) == text


def test_lines_of_a_message_stay_lines() -> None:
    assert printable_lines("it said:\n  no\x1b[2J") == "it said:\n  no\\x1b[2J"
