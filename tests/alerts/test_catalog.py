"""Alerts in the data folder, which only their owner reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.alerts import catalog
from headrace.alerts.catalog import Acknowledgement, Alerts, RunnerStatus
from headrace.alerts.definition import Alert, Target
from headrace.alerts.errors import BadAlert
from headrace.alerts.silences import Silence
from headrace.alerts.targets.vapid import new_keys


@pytest.fixture
def alerts(tmp_path: Path) -> Alerts:
    return Alerts(tmp_path)


def alert(name: str) -> Alert:
    target = Target(id="t", address="mailto://a:secret@host?to=a@example.com")
    return Alert(name=name, id="1", topic="logs", created_ms=0, when="x > 1", to=(target,))


def test_files_are_readable_by_their_owner_only(alerts: Alerts, tmp_path: Path) -> None:
    alerts.add(alert("errors"))
    alerts.write_vapid_keys(new_keys("mailto:a@example.com"))
    folder = tmp_path / "alerts"
    assert folder.stat().st_mode & 0o077 == 0
    for name in ("errors/alert.json", "vapid.json"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600


def test_alert_is_added_once_and_removed(alerts: Alerts) -> None:
    alerts.add(alert("errors"))
    assert alerts.get("errors") == alert("errors")
    for name in ("errors", "silences", "requests"):
        with pytest.raises(BadAlert, match="already"):
            alerts.add(alert(name))
    with pytest.raises(BadAlert) as failed:
        alerts.get("erors")
    assert "errors" in failed.value.hint
    before = alerts.versions()
    alerts.remove("errors")
    assert (alerts.names(), alerts.versions()) == ([], {})
    assert [*before] == ["errors"]
    with pytest.raises(BadAlert, match="no alert"):
        alerts.remove("errors")


def test_number_of_alerts_and_silences_is_bounded(alerts: Alerts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "ALERTS_MAX", 1)
    monkeypatch.setattr(catalog, "SILENCES_MAX", 1)
    alerts.add(alert("first"))
    with pytest.raises(BadAlert, match="1 alerts"):
        alerts.add(alert("second"))
    alerts.add_silence(Silence(id="a", start_ms=0, end_ms=10))
    with pytest.raises(BadAlert, match="1 silences"):
        alerts.add_silence(Silence(id="b", start_ms=0, end_ms=10))


def test_silences_that_are_over_are_not_listed_and_then_deleted(alerts: Alerts) -> None:
    for name, end_ms in (("long", 30), ("short", 10)):
        alerts.add_silence(Silence(id=name, start_ms=0, end_ms=end_ms))
    assert [each.id for each in alerts.silences(5)] == ["short", "long"]
    assert [each.id for each in alerts.silences(10)] == ["long"]
    alerts.remove_ended(10)
    assert [each.id for each in alerts.silences(0)] == ["long"]
    alerts.remove_silence("long")
    for name in ("long", "../errors/alert"):
        with pytest.raises(BadAlert, match="no silence"):
            alerts.remove_silence(name)


def test_requests_are_in_order_until_they_are_cleared(alerts: Alerts) -> None:
    for name, at_ms in (("b", 1), ("a", 2)):
        alerts.request(Acknowledgement(id=name, alert="errors", at_ms=at_ms))
    assert [each.id for each in alerts.requests()] == ["b", "a"]
    alerts.clear_request("b")
    alerts.clear_request("b")
    assert [each.id for each in alerts.requests()] == ["a"]


def test_keys_are_never_replaced(alerts: Alerts) -> None:
    assert alerts.vapid_keys() is None
    keys = new_keys("mailto:a@example.com")
    alerts.write_vapid_keys(keys)
    with pytest.raises(BadAlert, match="already"):
        alerts.write_vapid_keys(new_keys("mailto:b@example.com"))
    assert alerts.vapid_keys() == keys


def test_process_that_died_is_killed_by_its_status(alerts: Alerts) -> None:
    assert alerts.status().state == "never ran"
    assert alerts.lock.take()
    alerts.write_status(RunnerStatus(state="running"))
    assert alerts.status().state == "running"
    alerts.lock.release()
    assert alerts.status().state == "killed"
    alerts.write_status(RunnerStatus(state="stopped"))
    assert alerts.status().state == "stopped"


def test_damaged_files_of_silences_and_status_are_skipped(alerts: Alerts, tmp_path: Path) -> None:
    alerts.add_silence(Silence(id="a", start_ms=0, end_ms=10))
    (tmp_path / "alerts" / "silences" / "b.json").write_text("{")
    (tmp_path / "alerts" / "status.json").write_text("{")
    assert [each.id for each in alerts.silences(0)] == ["a"]
    assert alerts.status().state == "never ran"
