"""Errors of conditions."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadCondition(HeadraceError):
    """The text is not a condition."""


class NotComparable(BadCondition):
    """The condition can't be evaluated for these values: text is compared with a number, or a list with anything."""
