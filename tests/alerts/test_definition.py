"""What an alert may be: every mistake is an error with a remedy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.alerts.definition import Alert, Target, Templates, check
from headrace.alerts.errors import BadAlert
from headrace.alerts.key_state import Rule
from headrace.alerts.notifying import NotifyRule
from headrace.errors import HeadraceError

TO = (Target(id="t", address="https://host/hook"),)


def alert(**fields: Any) -> Alert:
    return Alert(
        **{"name": "a", "id": "1", "topic": "logs", "created_ms": 0, "when": "x > 1", "to": TO, **fields}
    )


def test_definition_survives_its_file() -> None:
    found = alert(
        per=("a.b",),
        rule=Rule(for_ms=1, absent_for_ms=2),
        notify=NotifyRule(repeat_ms=5),
        start={"0": 7},
        group_by=("c",),
    )
    check(found)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Alert) == found


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": "../a"},
        {"name": "a" * 61},
        {"topic": "a b"},
        {"when": ""},
        {"when": "x >"},
        {"when": "sleep(5)"},
        {"resolve_when": "drop table x"},
        {"per": ("a b",)},
        {"per": ("a.",)},
        {"group_by": tuple(f"f{number}" for number in range(11))},
        {"rule": Rule(at_least=5)},
        {"rule": Rule(within_ms=5)},
        {"rule": Rule(at_least=1_001, within_ms=5)},
        {"rule": Rule(absent_for_ms=5, resolve_after_ms=5)},
        {"rule": Rule(absent_for_ms=0)},
        {"rule": Rule(resolve_after_ms=0)},
        {"notify": NotifyRule(repeat_ms=0)},
        {"notify": NotifyRule(escalate_after_ms=5)},
        {"escalate_to": TO},
        {"to": ()},
        {"to": tuple(Target(id=str(number), address="https://host") for number in range(21))},
        {"templates": Templates(body="x" * 20_001)},
    ],
    ids=str,
)
def test_mistake_is_an_error_with_a_remedy(fields: dict[str, Any]) -> None:
    with pytest.raises(HeadraceError) as failed:
        check(alert(**fields))
    assert failed.value.hint


def test_absence_needs_no_condition() -> None:
    check(alert(when="", rule=Rule(absent_for_ms=5)))
    with pytest.raises(BadAlert, match="no condition"):
        check(alert(when=""))
