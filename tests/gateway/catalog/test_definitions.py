from __future__ import annotations

from pathlib import Path

import pytest

from headrace.alerts.catalog import Alerts
from headrace.alerts.definition import Alert, Target
from headrace.gateway.catalog.definitions import Definitions
from headrace.gateway.catalog.model import User, UserKind
from tests.webhooks.incoming.receiving import stored
from tests.webhooks.incoming.sending import source


@pytest.fixture
def definitions(tmp_path: Path) -> Definitions:
    for name in ("github", "broken"):
        stored(tmp_path, source(name=name, topic="pushes"))
        alert = Alert(
            name=name,
            id=name,
            topic="logs",
            created_ms=0,
            when="level = 'ERROR'",
            to=(Target(id="t", address="https://ops.example/hook"),),
        )
        Alerts(tmp_path).add(alert)
    return Definitions(webhooks_dir=tmp_path, alerts_dir=tmp_path)


def test_webhooks_in_write_and_alerts_read(definitions: Definitions) -> None:
    problems: list[str] = []
    assert definitions.writers(problems) == {
        User(UserKind.WEBHOOK_IN, name): ("pushes", "dlq.pushes") for name in ("broken", "github")
    }
    assert definitions.readers(problems) == {
        User(UserKind.ALERT, name): ("logs",) for name in ("broken", "github")
    }
    assert problems == []


def test_damaged_definition_is_a_problem_and_the_others_are_there(
    definitions: Definitions, tmp_path: Path
) -> None:
    (tmp_path / "webhooks" / "in" / "broken.json").write_text("{")
    Alerts(tmp_path).get_path("broken").write_text("{")
    problems: list[str] = []
    assert [*definitions.writers(problems)] == [User(UserKind.WEBHOOK_IN, "github")]
    assert [*definitions.readers(problems)] == [User(UserKind.ALERT, "github")]
    assert [each.partition(" is missing")[0] for each in problems] == ["webhook in broken", "alert broken"]


def test_folder_without_definitions_has_none(tmp_path: Path) -> None:
    definitions = Definitions(webhooks_dir=tmp_path, alerts_dir=tmp_path / "nothing")
    assert definitions.writers([]) == definitions.readers([]) == {}
