"""Errors of webhooks."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadWebhook(HeadraceError):
    """A definition that cannot be used: its name, its secret or one of its options."""


class NoSuchWebhook(HeadraceError):
    """There is no definition of this name."""


class DamagedDefinition(HeadraceError):
    """The file of a definition that cannot be read."""
