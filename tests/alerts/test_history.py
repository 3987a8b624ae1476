"""The history of alerts."""

from __future__ import annotations

from headrace.alerts.history import HISTORY_TOPIC, HistoryEvent, HistoryKind, read_history
from headrace.alerts.state_log import StateLog
from headrace.clock import SystemClock
from tests.alerts.conftest import Lab


def test_last_events_that_are_wanted_are_read_and_foreign_records_are_skipped(lab: Lab) -> None:
    assert read_history(lab.cluster, wanted=lambda _: True, limit=10) == []
    log = StateLog(lab.cluster, SystemClock(), "folder")
    log.open()
    events = [
        HistoryEvent(at_ms=number, alert="errors", event=HistoryKind.FIRING, firing=number)
        for number in range(6)
    ]
    log.commit(log.history_records(events))
    log.close()
    lab.write_bytes(b"not an event", b"{}", topic=HISTORY_TOPIC)
    found = read_history(lab.cluster, wanted=lambda each: each.at_ms % 2 == 0, limit=2)
    assert [each.firing for each in found] == [2, 4]
