"""What the status of an answer means."""

from __future__ import annotations

import pytest

from headrace.webhooks.outgoing.outcomes import Answer, Verdict, error_of


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ((200, 201, 202, 204, 299), Verdict.DELIVERED),
        ((301, 302, 307, 308, 304, 199), Verdict.FAILED),
        ((500, 502, 503, 504, 599, 999, None), Verdict.FAILED),
        ((408, 409, 425, 429), Verdict.FAILED),
        ((400, 401, 403, 404, 405, 413, 422, 499), Verdict.REJECTED),
        ((410,), Verdict.GONE),
    ],
)
def test_status_decides(statuses: tuple[int | None, ...], verdict: Verdict) -> None:
    for status in statuses:
        assert Answer(status=status, latency_ms=1.0).verdict is verdict


def test_only_success_has_no_error() -> None:
    assert error_of(204) == ""
    assert error_of(302) == "HTTP 302: redirects are not followed"
    assert error_of(500) == "HTTP 500"
