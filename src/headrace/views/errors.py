"""Errors of views."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import HeadraceError


class BadView(HeadraceError):
    """A person has to act: the definition, the store or a request is wrong."""


class ViewUnavailable(HeadraceError):
    """The store does not respond, or the view is not as new as it was asked to be. The same call may succeed later."""


class ViewBehind(ViewUnavailable):
    """The view is not as new as it was asked to be."""

    def __init__(self, message: str, *, hint: str, behind: Mapping[str, int]) -> None:
        super().__init__(message, hint=hint)
        self.behind = behind
        """By `topic-partition`, how many offsets are missing."""
