"""The errors of schemas."""

from __future__ import annotations

from headrace.errors import HeadraceError


class InvalidSchema(HeadraceError):
    """The text is not a schema of its type, or it needs names that no reference has."""


class DoesNotFit(HeadraceError):
    """A value is not one of the schema."""
