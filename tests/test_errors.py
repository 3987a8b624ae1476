"""An error for a user: the message, and the hint in parentheses."""

from __future__ import annotations

import pytest

from headrace import HeadraceError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (HeadraceError("the disk is full"), "the disk is full"),
        (HeadraceError("the disk is full", hint="delete a topic"), "the disk is full (delete a topic)"),
    ],
)
def test_hint_follows_the_message(error: HeadraceError, text: str) -> None:
    assert str(error) == text
    assert error.message == "the disk is full"
