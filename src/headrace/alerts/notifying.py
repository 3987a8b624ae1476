"""What a message says about one key: its firing, the firings that have ended, and when to look again.

Pure: the state of the key, whether it is silenced, and the time go in; the new state and what to say come out.
Each firing is in messages as firing at most once (besides repetitions), and as resolved exactly once if it was in one.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from headrace.alerts.key_state import KeyState, Phase

ENDINGS_MAX = 20
"""Firings of a key that ended before a message could say so. More of them are counted."""

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
    """A firing that has ended, and no message says so yet."""

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
        """Whether there is something that no message says yet."""
        return bool(self.endings) or (self.firing is not None and self.firing.notified_ms is None)


class NoteKind(StrEnum):
    SILENCED = "silenced"
    SUPPRESSED = "suppressed"
    """it ended while it was silenced or cooled down, and no message had said that it fires"""
    ESCALATED = "escalated"


class Note(Struct, frozen=True, kw_only=True):
    kind: NoteKind
    firing: int
    reason: str = ""


class Told(Struct, frozen=True, kw_only=True):
    """What messages say now about a key."""

    tracked: Tracked
    fires: bool = False
    repeats: bool = False
    escalates: bool = False
    ended: tuple[Ending, ...] = ()
    notes: tuple[Note, ...] = ()
    next_ms: int = NEVER_MS
    """when there is something to say, if nothing changes until then"""

    @property
    def says_something(self) -> bool:
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


def tell(rule: NotifyRule, tracked: Tracked, silenced_until_ms: int | None, now_ms: int) -> Told:
    """What a message that is sent now says about the key. `silenced_until_ms` is None if it is not silenced."""
    told = _tell_endings(rule, Told(tracked=tracked), silenced_until_ms, now_ms)
    firing = told.tracked.firing
    if firing is None:
        return told
    assert told.tracked.state.phase is Phase.FIRING
    if silenced_until_ms is not None:
        return _silenced(told, firing, silenced_until_ms)
    if firing.notified_ms is None:
        return _tell_firing(rule, told, firing, now_ms)
    return _tell_again(rule, told, firing, now_ms)


def _tell_endings(rule: NotifyRule, told: Told, silenced_until_ms: int | None, now_ms: int) -> Told:
    tracked = told.tracked
    if not tracked.endings:
        return told
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
        told,
        tracked=replace(tracked, endings=tuple(kept), endings_cut=cut, notified_ms=notified_ms),
        ended=tuple(ended),
        notes=tuple(notes),
        next_ms=silenced_until_ms if kept and silenced_until_ms is not None else NEVER_MS,
    )


def _silenced(told: Told, firing: Firing, until_ms: int) -> Told:
    if firing.notified_ms is not None or firing.is_silenced:
        return replace(told, next_ms=until_ms)
    return replace(
        told,
        tracked=replace(told.tracked, firing=replace(firing, is_silenced=True)),
        notes=(*told.notes, Note(kind=NoteKind.SILENCED, firing=firing.number)),
        next_ms=until_ms,
    )


def _tell_firing(rule: NotifyRule, told: Told, firing: Firing, now_ms: int) -> Told:
    cooled_ms = told.tracked.notified_ms + rule.cool_down_ms
    if now_ms < cooled_ms:
        return replace(told, next_ms=cooled_ms)
    firing = replace(firing, notified_ms=now_ms, repeated_ms=now_ms, is_silenced=False)
    return replace(
        told,
        fires=True,
        tracked=replace(told.tracked, firing=firing, notified_ms=now_ms),
        next_ms=_next_ms(rule, firing),
    )


def _tell_again(rule: NotifyRule, told: Told, firing: Firing, now_ms: int) -> Told:
    if firing.acknowledged_ms is not None:
        return told
    assert firing.notified_ms is not None
    assert firing.repeated_ms is not None
    repeats = rule.repeat_ms is not None and now_ms >= firing.repeated_ms + rule.repeat_ms
    escalates = _escalates_ms(rule, firing) <= now_ms
    if not (repeats or escalates):
        return replace(told, next_ms=_next_ms(rule, firing))
    notes = told.notes
    if repeats:
        firing = replace(firing, repeated_ms=now_ms)
    if escalates:
        firing = replace(firing, escalated_ms=now_ms)
        notes = (*notes, Note(kind=NoteKind.ESCALATED, firing=firing.number))
    return replace(
        told,
        tracked=replace(told.tracked, firing=firing),
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
