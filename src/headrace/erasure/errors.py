"""Errors of erasures."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadErasure(HeadraceError):
    """The request or its state does not allow this. Another try will fail too."""


class ErasureInterrupted(HeadraceError):
    """The broker or a place is unavailable, or another process took over. The erasure can be continued."""
