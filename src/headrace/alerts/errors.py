"""Errors of alerts that a caller distinguishes."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadAlert(HeadraceError):
    """A definition, a silence, a target or a template that a person has to correct."""


class AlertsFenced(HeadraceError):
    """Another process runs the alerts of this cluster."""


class DeliveryFailed(Exception):
    """A target did not take a notification. `is_final` means that a retry would fail, too."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_final = is_final
