"""How conditions and durations are shown."""

from __future__ import annotations

import pytest

from headrace.alerts.definition import Alert
from headrace.alerts.key_state import Rule
from headrace.cli.alert.shared import condition_text, short


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0ms"), (1, "1ms"), (90_000, "90s"), (7_200_000, "2h"), (86_400_000, "1d")]
)
def test_duration_is_short(duration_ms: int, text: str) -> None:
    assert short(duration_ms) == text


def test_condition_has_its_rule() -> None:
    rule = Rule(at_least=5, within_ms=60_000, for_ms=1_000)
    alert = Alert(name="a", id="1", topic="t", created_ms=0, when="x > 1", rule=rule)
    assert condition_text(alert) == "x > 1, 5 within 1m, for 1s"
    absent = Alert(name="a", id="1", topic="t", created_ms=0, rule=Rule(absent_for_ms=300_000))
    assert condition_text(absent) == "no record for 5m"
