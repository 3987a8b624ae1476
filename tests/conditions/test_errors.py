from __future__ import annotations

from headrace.conditions import BadCondition, NotComparable
from headrace.errors import HeadraceError


def test_both_are_errors_for_users() -> None:
    assert issubclass(NotComparable, BadCondition)
    assert issubclass(BadCondition, HeadraceError)
