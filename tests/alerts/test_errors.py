"""Errors of alerts."""

from __future__ import annotations

from headrace.alerts.errors import AlertsFenced, BadAlert, DeliveryFailed
from headrace.errors import HeadraceError


def test_errors_for_people_have_hints_and_a_failed_delivery_may_be_final() -> None:
    assert issubclass(BadAlert, HeadraceError)
    assert issubclass(AlertsFenced, HeadraceError)
    assert not DeliveryFailed("busy").is_final
    gone = DeliveryFailed("gone", is_final=True)
    assert (str(gone), gone.is_final) == ("gone", True)
