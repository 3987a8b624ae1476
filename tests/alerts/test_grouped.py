"""The message of a group: what is listed, and what goes to the escalation."""

from __future__ import annotations

from headrace.alerts.definition import Alert
from headrace.alerts.grouped import GroupMessage
from headrace.alerts.key_state import KeyState, Phase
from headrace.alerts.message import LISTED_MAX, MessageKind
from headrace.alerts.notifying import Ending, Firing, Reported, Tracked

ALERT = Alert(name="errors", id="a1", topic="logs", created_ms=0, when="x > 1")
FIRING = Firing(number=3, since_ms=1, fired_ms=2, notified_ms=5)


def tracked(firing: Firing | None = FIRING) -> Tracked:
    return Tracked(state=KeyState(phase=Phase.FIRING), firing=firing, record='{"x":2}')


def test_group_without_news_has_no_message() -> None:
    message = GroupMessage(ALERT, {}, 10)
    message.add('{"a":1}', tracked(), Reported(tracked=tracked()))
    assert (message.messages(1), message.key_count) == ([], 0)


def test_lists_are_cut_and_counted() -> None:
    message = GroupMessage(ALERT, {"team": "red"}, 10)
    for number in range(LISTED_MAX + 7):
        message.add(f'{{"a":{number}}}', tracked(), Reported(tracked=tracked(), fires=True))
    ((found, is_escalation),) = message.messages(99)
    assert (found.firing_count, found.cut, found.total_firing, is_escalation) == (
        LISTED_MAX + 7,
        7,
        99,
        False,
    )
    assert (found.firing[1].key, found.firing[1].record, found.group) == ({"a": 1}, {"x": 2}, {"team": "red"})


def test_end_of_an_escalated_firing_is_in_both_messages() -> None:
    escalated = Firing(number=4, since_ms=1, fired_ms=2, notified_ms=5, escalated_ms=7)
    endings = (Ending(firing=FIRING, ended_ms=9), Ending(firing=escalated, ended_ms=9))
    message = GroupMessage(ALERT, {}, 10)
    message.add('{"a":1}', tracked(None), Reported(tracked=tracked(None), ended=endings))
    found = [
        (each.kind, [one.firing for one in each.resolved], is_escalation)
        for each, is_escalation in message.messages(0)
    ]
    assert found == [(MessageKind.RESOLVED, [3, 4], False), (MessageKind.RESOLVED, [4], True)]


def test_escalation_is_a_message_of_its_own() -> None:
    message = GroupMessage(ALERT, {}, 10)
    message.add('{"a":1}', tracked(), Reported(tracked=tracked(), repeats=True, escalates=True))
    found = [(each.kind, each.firing[0].is_repeated) for each, _ in message.messages(1)]
    assert found == [(MessageKind.FIRING, True), (MessageKind.ESCALATION, False)]
