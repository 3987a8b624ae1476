"""Errors of views."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.views.errors import BadView, ViewUnavailable


def test_one_needs_a_person_and_the_other_may_pass() -> None:
    assert issubclass(BadView, HeadraceError)
    assert issubclass(ViewUnavailable, HeadraceError)
    assert not issubclass(ViewUnavailable, BadView)
