"""What a message reports about one key: its firing, the firings that have ended, and when to look again.

Pure: the state of the key, whether it is silenced, and the time go in; the new state and the report come out.
Each firing is in messages as firing at most once (besides repetitions), and as resolved exactly once if it was in one.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from headrace.alerts.key_state import KeyState, Phase

ENDINGS_MAX = 20
"""Firings of a key that ended before a message could report them. More of them are counted."""

NEVER_MS = 1 << 62


class NotifyRule(Struct, frozen=True, kw_only=True):
    """How often messages are sent. All times are those of the clock, not of records."""

    group_wait_ms: int = 1_000
    """after the first change of a group, until its message: others join it"""
    group_interval_ms: int = 10_000
    """between two messages of a group"""
    cool_down_ms: int = 0
    """after a message that a key fires, until the next one about another firing of the key"""
    repeat_ms: int | None = None
    """a key that fires all along is repeated after so long"""
    escalate_after_ms: int | None = None
    """a firing that is neither acknowledged nor resolved for so long after its message"""


class Firing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    since_ms: int
    """when the condition began to hold"""
    fired_ms: int
    notified_ms: int | None = None
    """of the first message about it"""
    repeated_ms: int | None = None
    """of the last message about it"""
    acknowledged_ms: int | None = None
    acknowledged_by: str = ""
    escalated_ms: int | None = None
    is_silenced: bool = False


class Ending(Struct, frozen=True, kw_only=True):
    """A firing that has ended, and no message has reported that yet."""

    firing: Firing
    ended_ms: int


class Tracked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that is kept of a key."""

    state: KeyState
    group: str = ""
    """the values of the fields that messages are grouped by, as JSON"""
    record: str = ""
    """the record that made it hold, as JSON; cut"""
    firing: Firing | None = None
    endings: tuple[Ending, ...] = ()
    endings_cut: int = 0
    notified_ms: int = -NEVER_MS
    """of the last message that it fires"""

    @property
    def is_waiting(self) -> bool:
        """Whether there is something that no message has reported yet."""
        return bool(self.endings) or (self.firing is not None and self.firing.notified_ms is None)


class NoteKind(StrEnum):
    SILENCED = "silenced"
    SUPPRESSED = "suppressed"
    """it ended while it was silenced or cooled down, and no message had reported that it fires"""
    ESCALATED = "escalated"


class Note(Struct, frozen=True, kw_only=True):
    kind: NoteKind
    firing: int
    reason: str = ""


class Reported(Struct, frozen=True, kw_only=True):
    """What messages report now about a key."""

    tracked: Tracked
    fires: bool = False
    repeats: bool = False
    escalates: bool = False
    ended: tuple[Ending, ...] = ()
    notes: tuple[Note, ...] = ()
    next_ms: int = NEVER_MS
    """when there is news, if nothing changes until then"""

    @property
    def has_news(self) -> bool:
        return self.fires or self.repeats or self.escalates or bool(self.ended)


def begin(tracked: Tracked, number: int, *, since_ms: int, fired_ms: int) -> Tracked:
    assert tracked.firing is None
    return replace(tracked, firing=Firing(number=number, since_ms=since_ms, fired_ms=fired_ms))


def end(tracked: Tracked, ended_ms: int) -> Tracked:
    assert tracked.firing is not None
    ending = Ending(firing=tracked.firing, ended_ms=ended_ms)
    tracked = replace(tracked, firing=None)
    if len(tracked.endings) >= ENDINGS_MAX and ending.firing.notified_ms is None:
        return replace(tracked, endings_cut=tracked.endings_cut + 1)
    return replace(tracked, endings=(*tracked.endings, ending))


def acknowledge(tracked: Tracked, by: str, now_ms: int, *, requested_ms: int) -> Tracked | None:
    """None if there is nothing to acknowledge: no firing of before the request, or one that is acknowledged."""
    firing = tracked.firing
    if firing is None or firing.acknowledged_ms is not None or firing.fired_ms > requested_ms:
        return None
    return replace(tracked, firing=replace(firing, acknowledged_ms=now_ms, acknowledged_by=by))


def report(rule: NotifyRule, tracked: Tracked, silenced_until_ms: int | None, now_ms: int) -> Reported:
    """What a message that is sent now reports about the key. `silenced_until_ms` is None if it is not silenced."""
    reported = _report_endings(rule, Reported(tracked=tracked), silenced_until_ms, now_ms)
    firing = reported.tracked.firing
    if firing is None:
        return reported
    assert reported.tracked.state.phase is Phase.FIRING
    if silenced_until_ms is not None:
        return _silenced(reported, firing, silenced_until_ms)
    if firing.notified_ms is None:
        return _report_firing(rule, reported, firing, now_ms)
    return _report_again(rule, reported, firing, now_ms)


def _report_endings(
    rule: NotifyRule, reported: Reported, silenced_until_ms: int | None, now_ms: int
) -> Reported:
    tracked = reported.tracked
    if not tracked.endings:
        return reported
    kept: list[Ending] = []
    ended: list[Ending] = []
    notes: list[Note] = []
    notified_ms = tracked.notified_ms
    for ending in tracked.endings:
        firing = ending.firing
        if firing.notified_ms is not None:
            (ended if silenced_until_ms is None else kept).append(ending)
        elif silenced_until_ms is not None:
            notes.append(Note(kind=NoteKind.SUPPRESSED, firing=firing.number, reason="silenced"))
        elif now_ms < notified_ms + rule.cool_down_ms:
            notes.append(Note(kind=NoteKind.SUPPRESSED, firing=firing.number, reason="cool-down"))
        else:
            ended.append(ending)
            if rule.cool_down_ms:
                notified_ms = now_ms
    cut = tracked.endings_cut if silenced_until_ms is not None and kept else 0
    return replace(
        reported,
        tracked=replace(tracked, endings=tuple(kept), endings_cut=cut, notified_ms=notified_ms),
        ended=tuple(ended),
        notes=tuple(notes),
        next_ms=silenced_until_ms if kept and silenced_until_ms is not None else NEVER_MS,
    )


def _silenced(reported: Reported, firing: Firing, until_ms: int) -> Reported:
    if firing.notified_ms is not None or firing.is_silenced:
        return replace(reported, next_ms=until_ms)
    return replace(
        reported,
        tracked=replace(reported.tracked, firing=replace(firing, is_silenced=True)),
        notes=(*reported.notes, Note(kind=NoteKind.SILENCED, firing=firing.number)),
        next_ms=until_ms,
    )


def _report_firing(rule: NotifyRule, reported: Reported, firing: Firing, now_ms: int) -> Reported:
    cooled_ms = reported.tracked.notified_ms + rule.cool_down_ms
    if now_ms < cooled_ms:
        return replace(reported, next_ms=cooled_ms)
    firing = replace(firing, notified_ms=now_ms, repeated_ms=now_ms, is_silenced=False)
    return replace(
        reported,
        fires=True,
        tracked=replace(reported.tracked, firing=firing, notified_ms=now_ms),
        next_ms=_next_ms(rule, firing),
    )


def _report_again(rule: NotifyRule, reported: Reported, firing: Firing, now_ms: int) -> Reported:
    if firing.acknowledged_ms is not None:
        return reported
    assert firing.notified_ms is not None
    assert firing.repeated_ms is not None
    repeats = rule.repeat_ms is not None and now_ms >= firing.repeated_ms + rule.repeat_ms
    escalates = _escalates_ms(rule, firing) <= now_ms
    if not (repeats or escalates):
        return replace(reported, next_ms=_next_ms(rule, firing))
    notes = reported.notes
    if repeats:
        firing = replace(firing, repeated_ms=now_ms)
    if escalates:
        firing = replace(firing, escalated_ms=now_ms)
        notes = (*notes, Note(kind=NoteKind.ESCALATED, firing=firing.number))
    return replace(
        reported,
        tracked=replace(reported.tracked, firing=firing),
        repeats=repeats,
        escalates=escalates,
        notes=notes,
        next_ms=_next_ms(rule, firing),
    )


def _escalates_ms(rule: NotifyRule, firing: Firing) -> int:
    if rule.escalate_after_ms is None or firing.escalated_ms is not None or firing.notified_ms is None:
        return NEVER_MS
    return firing.notified_ms + rule.escalate_after_ms


def _next_ms(rule: NotifyRule, firing: Firing) -> int:
    assert firing.repeated_ms is not None
    repeats_ms = NEVER_MS if rule.repeat_ms is None else firing.repeated_ms + rule.repeat_ms
    return min(repeats_ms, _escalates_ms(rule, firing))
