"""Errors of edges."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadEdge(HeadraceError):
    """An edge that cannot run until a person changes something: an address, a topic, a folder."""
