from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

from headrace.views.errors import BadView, ViewBehind, ViewUnavailable
from headrace.views.http.answers import encoded, error_response


def test_values_of_every_type_are_json() -> None:
    row = {
        "price": Decimal("10.50"),
        "at": datetime(2026, 11, 18, 6, 30, tzinfo=UTC),
        "raw": b"\x00",
        "odd": 3 + 4j,
        "tags": ["a"],
    }
    assert json.loads(encoded(row)) == {
        "price": "10.50",
        "at": "2026-11-18T06:30:00Z",
        "raw": "AA==",
        "odd": "(3+4j)",
        "tags": ["a"],
    }


def test_error_says_whether_the_same_request_may_succeed_later() -> None:
    assert error_response(BadView("no", hint="so")).status_code == 400
    passing = error_response(ViewUnavailable("not now", hint="wait"))
    assert (passing.status_code, passing.headers["Retry-After"]) == (503, "1")
    behind = error_response(ViewBehind("behind", hint="wait", behind={"clicks-0": 3}))
    assert json.loads(bytes(behind.body)) == {"error": "behind", "hint": "wait", "behind": {"clicks-0": 3}}
