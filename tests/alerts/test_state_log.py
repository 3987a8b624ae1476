"""The state in the log: what was written is read back, and only the last owner writes."""

from __future__ import annotations

import pytest

from headrace.alerts.book import Book, Draft, Group
from headrace.alerts.errors import AlertsFenced
from headrace.alerts.history import HistoryEvent, HistoryKind
from headrace.alerts.key_state import KeyState, Phase
from headrace.alerts.message import Message, MessageKind, Waiting
from headrace.alerts.notifying import Ending, Firing, Tracked
from headrace.alerts.state_log import StateLog, Stored, read_state
from headrace.clock import SystemClock
from tests.alerts.conftest import Lab

FIRING = Firing(number=1, since_ms=1, fired_ms=2, acknowledged_ms=3, acknowledged_by="ann")
TRACKED = Tracked(
    state=KeyState(phase=Phase.FIRING, times=(1, 2)),
    firing=FIRING,
    endings=(Ending(firing=FIRING, ended_ms=9),),
)
EVENT = HistoryEvent(at_ms=1, alert="errors", event=HistoryKind.FIRING, key={"a": 1})


def draft(**keys: Tracked | None) -> Draft:
    book = Book(id="1", positions={"0": 7})
    return Draft(book=book, keys=keys, groups={"{}": Group(last_ms=5)}, history=(EVENT,), messages=())


def log_of(lab: Lab) -> StateLog:
    return StateLog(lab.cluster, SystemClock(), str(lab.folder))


def test_state_is_read_back_without_what_was_deleted(lab: Lab) -> None:
    assert read_state(lab.cluster) == Stored()
    log = log_of(lab)
    assert log.open().alerts == {}
    message = Message(id="m", alert="errors", topic="logs", kind=MessageKind.FIRING, at_ms=1)
    waiting = [Waiting(message=message, target=each) for each in ("t1", "t2")]
    log.commit([*log.records_of("errors", draft(a=TRACKED, b=TRACKED)), *log.waiting_records(waiting)])
    log.commit([*log.records_of("errors", draft(b=None)), *log.taken_records([("m", "t1")])])
    log.close()
    found = log_of(lab).open()
    assert found.alerts["errors"].keys == {"a": TRACKED}
    assert found.alerts["errors"].book == Book(id="1", positions={"0": 7})
    assert found.alerts["errors"].groups == {"{}": Group(last_ms=5)}
    assert found.waiting == {("m", "t2"): waiting[1]}
    assert lab.history() == [EVENT, EVENT]


def test_owner_that_was_replaced_cannot_write(lab: Lab) -> None:
    first, second = log_of(lab), log_of(lab)
    first.open()
    second.open()
    with pytest.raises(AlertsFenced, match=str(lab.folder)):
        first.commit(first.records_of("errors", draft(a=TRACKED)))
    second.commit(second.records_of("errors", draft(b=TRACKED)))
    assert [*read_state(lab.cluster).alerts["errors"].keys] == ["b"]
    second.close()
