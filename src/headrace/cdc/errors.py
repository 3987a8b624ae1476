"""Errors of change capture that a caller distinguishes."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadCapture(HeadraceError):
    """A capture that cannot run until a person changes something: the definition, a permission, a table, a slot."""


class SourceUnavailable(HeadraceError):
    """The database does not respond. The runner tries again."""
