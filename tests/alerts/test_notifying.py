"""What messages report about a key: once that it fires, once that it resolved, nothing while it is silenced."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.alerts.key_state import KeyState, Phase
from headrace.alerts.notifying import (
    ENDINGS_MAX,
    NEVER_MS,
    NoteKind,
    NotifyRule,
    Tracked,
    acknowledge,
    begin,
    end,
    report,
)

IDLE = Tracked(state=KeyState())


def fires(tracked: Tracked = IDLE, number: int = 1, at_ms: int = 0) -> Tracked:
    return replace(begin(tracked, number, since_ms=at_ms, fired_ms=at_ms), state=KeyState(phase=Phase.FIRING))


def resolves(tracked: Tracked, at_ms: int) -> Tracked:
    return replace(end(tracked, at_ms), state=KeyState())


def test_firing_and_its_end_are_reported_once() -> None:
    reported = report(NotifyRule(), fires(), None, 10)
    assert (reported.fires, reported.next_ms) == (True, NEVER_MS)
    again = report(NotifyRule(), reported.tracked, None, 20)
    assert not again.has_news
    assert again.tracked is reported.tracked  # nothing of it is written again
    ended = report(NotifyRule(), resolves(reported.tracked, 30), None, 40)
    assert [each.firing.number for each in ended.ended] == [1]
    assert not report(NotifyRule(), ended.tracked, None, 50).has_news


def test_firing_that_has_ended_before_a_message_is_reported_once_as_resolved() -> None:
    reported = report(NotifyRule(), resolves(fires(), 5), None, 10)
    assert (reported.fires, len(reported.ended)) == (False, 1)
    assert reported.tracked.endings == ()


def test_silenced_firing_is_reported_when_the_silence_ends() -> None:
    silenced = report(NotifyRule(), fires(), 100, 10)
    assert (silenced.has_news, silenced.next_ms) == (False, 100)
    assert [each.kind for each in silenced.notes] == [NoteKind.SILENCED]
    assert report(NotifyRule(), silenced.tracked, 100, 20).notes == ()
    assert report(NotifyRule(), silenced.tracked, None, 100).fires


def test_end_of_a_reported_firing_waits_for_the_end_of_a_silence() -> None:
    reported = report(NotifyRule(), fires(), None, 10).tracked
    silenced = report(NotifyRule(), resolves(reported, 20), 100, 30)
    assert (silenced.has_news, silenced.next_ms) == (False, 100)
    assert len(report(NotifyRule(), silenced.tracked, None, 100).ended) == 1


def test_firing_that_began_and_ended_in_a_silence_is_never_reported() -> None:
    silenced = report(NotifyRule(), resolves(report(NotifyRule(), fires(), 100, 5).tracked, 10), 100, 20)
    assert [(each.kind, each.reason) for each in silenced.notes] == [(NoteKind.SUPPRESSED, "silenced")]
    assert not report(NotifyRule(), silenced.tracked, None, 100).has_news


def test_cool_down_defers_the_next_firing_and_drops_one_that_ends_within() -> None:
    rule = NotifyRule(cool_down_ms=1_000)
    reported = report(rule, fires(), None, 0).tracked
    reported = report(rule, resolves(reported, 10), None, 20).tracked
    again = report(rule, fires(reported, 2, 30), None, 40)
    assert (again.has_news, again.next_ms) == (False, 1_000)
    assert report(rule, again.tracked, None, 1_000).fires
    dropped = report(rule, resolves(again.tracked, 50), None, 60)
    assert (dropped.ended, [each.reason for each in dropped.notes]) == ((), ["cool-down"])


def test_repetition_and_escalation_end_with_the_acknowledgement() -> None:
    rule = NotifyRule(repeat_ms=100, escalate_after_ms=250)
    reported = report(rule, fires(), None, 0)
    assert reported.next_ms == 100
    repeated = report(rule, reported.tracked, None, 100)
    assert (repeated.repeats, repeated.fires, repeated.next_ms) == (True, False, 200)
    escalated = report(rule, repeated.tracked, None, 250)
    assert escalated.escalates
    assert not report(rule, escalated.tracked, None, 260).escalates
    acknowledged = acknowledge(repeated.tracked, "ann", 110, requested_ms=105)
    assert acknowledged is not None
    after = report(rule, acknowledged, None, 10_000)
    assert (after.has_news, after.next_ms) == (False, NEVER_MS)
    assert len(report(rule, resolves(acknowledged, 10_001), None, 10_002).ended) == 1


def test_acknowledgement_is_for_firings_of_before() -> None:
    assert acknowledge(fires(at_ms=100), "ann", 120, requested_ms=99) is None
    found = acknowledge(fires(at_ms=100), "ann", 120, requested_ms=100)
    assert found is not None
    assert acknowledge(found, "bob", 130, requested_ms=125) is None
    assert acknowledge(IDLE, "ann", 1, requested_ms=1) is None


def test_endings_that_no_message_has_reported_are_counted_beyond_a_bound() -> None:
    tracked = IDLE
    for number in range(ENDINGS_MAX + 5):
        tracked = resolves(fires(tracked, number), number)
    reported = report(NotifyRule(), tracked, None, 100)
    assert (len(reported.ended), tracked.endings_cut, reported.tracked.endings_cut) == (ENDINGS_MAX, 5, 0)
