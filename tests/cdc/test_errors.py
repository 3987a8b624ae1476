"""Errors of change capture: what the runner retries, and what it does not."""

from __future__ import annotations

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.errors import HeadraceError


def test_error_that_a_retry_may_cure_is_not_caught_with_a_wrong_capture() -> None:
    assert issubclass(SourceUnavailable, HeadraceError)
    assert not issubclass(SourceUnavailable, BadCapture)
    assert str(BadCapture("no slot", hint="create it")) == "no slot (create it)"
