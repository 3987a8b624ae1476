"""The state of one key of an alert: what a record, or time alone, changes. No I/O, and time is passed in.

    idle ──holds──▸ pending ──elapsed──▸ firing
      ▴                │                   │
      └─────clears─────┴──────clears───────┘

A key holds from a record that meets the condition (or the last of several within a time) until it clears: by a record
that does not meet it, by a record that meets another condition, or after a time without one that does.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

KEPT_MS = 60_000
"""A key that has resolved is remembered for so long, so that a late record does not make it fire again."""


class Phase(StrEnum):
    IDLE = "idle"
    PENDING = "pending"
    FIRING = "firing"


class Signal(StrEnum):
    HOLDS = "holds"
    ELAPSED = "elapsed"
    """it has been pending for the minimum duration"""
    CLEARS = "clears"


TRANSITIONS: Mapping[tuple[Phase, Signal], Phase] = {
    (Phase.IDLE, Signal.HOLDS): Phase.PENDING,
    (Phase.IDLE, Signal.CLEARS): Phase.IDLE,
    (Phase.PENDING, Signal.HOLDS): Phase.PENDING,
    (Phase.PENDING, Signal.ELAPSED): Phase.FIRING,
    (Phase.PENDING, Signal.CLEARS): Phase.IDLE,
    (Phase.FIRING, Signal.HOLDS): Phase.FIRING,
    (Phase.FIRING, Signal.CLEARS): Phase.IDLE,
}


class ChangeKind(StrEnum):
    PENDING = "pending"
    CANCELLED = "cancelled"
    """it cleared before it was pending for long enough"""
    FIRING = "firing"
    RESOLVED = "resolved"
    LATE = "late"
    """a record older than the newest one of its key, which changes nothing"""


_CHANGES = {
    (Phase.IDLE, Phase.PENDING): ChangeKind.PENDING,
    (Phase.PENDING, Phase.IDLE): ChangeKind.CANCELLED,
    (Phase.PENDING, Phase.FIRING): ChangeKind.FIRING,
    (Phase.FIRING, Phase.IDLE): ChangeKind.RESOLVED,
}


class Rule(Struct, frozen=True, kw_only=True):
    """When a key fires, and when it clears."""

    for_ms: int = 0
    """how long it must hold before it fires"""
    at_least: int = 1
    within_ms: int = 0
    """so many records that meet the condition, within this time"""
    resolve_after_ms: int | None = None
    """it clears when no record has met the condition for so long"""
    has_resolve_when: bool = False
    """it clears by a record that meets another condition"""
    absent_for_ms: int | None = None
    """it holds when there was no record for so long, and clears by the next one"""

    @property
    def counts(self) -> bool:
        return self.at_least > 1

    @property
    def clears_by_miss(self) -> bool:
        """Whether a record that does not meet the condition clears the key."""
        return self.resolve_after_ms is None and not (self.has_resolve_when or self.counts)


class KeyState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    phase: Phase = Phase.IDLE
    since_ms: int = 0
    """when it began to hold"""
    seen_ms: int = 0
    """the time of its newest record"""
    held_ms: int = 0
    """the last time at which it held"""
    times: tuple[int, ...] = ()
    """of the last records that met the condition, in order, if they are counted"""


class Observed(Struct, frozen=True, kw_only=True):
    """A record of the key."""

    at_ms: int
    meets: bool
    resolves: bool = False


class Change(Struct, frozen=True, kw_only=True):
    kind: ChangeKind
    at_ms: int
    since_ms: int = 0


Step = tuple[KeyState, tuple[Change, ...]]


def observe(rule: Rule, state: KeyState, record: Observed) -> Step:
    """The state after a record. Time passes until just before it."""
    state, changes = advance(rule, state, record.at_ms - 1)
    if rule.absent_for_ms is not None:
        return _observe_presence(rule, state, record, changes)
    if rule.counts and record.meets:
        state = _counted(rule, state, record.at_ms)
        if not _has_enough(rule, state):
            return state, changes
        return _applied(rule, state, Signal.HOLDS, max(record.at_ms, state.times[-1]), changes)
    if record.at_ms < state.seen_ms:
        return state, (*changes, Change(kind=ChangeKind.LATE, at_ms=record.at_ms))
    state = replace(state, seen_ms=record.at_ms)
    if record.meets:
        return _applied(rule, replace(state, held_ms=record.at_ms), Signal.HOLDS, record.at_ms, changes)
    if record.resolves or rule.clears_by_miss:
        return _applied(rule, replace(state, times=()), Signal.CLEARS, record.at_ms, changes)
    return state, changes


def _observe_presence(rule: Rule, state: KeyState, record: Observed, changes: tuple[Change, ...]) -> Step:
    if not record.meets or record.at_ms < state.seen_ms:
        return state, changes
    return _applied(rule, replace(state, seen_ms=record.at_ms), Signal.CLEARS, record.at_ms, changes)


def _counted(rule: Rule, state: KeyState, at_ms: int) -> KeyState:
    times = [*state.times]
    insort(times, at_ms)  # records of several partitions are not in order
    kept = tuple(times[-rule.at_least :])
    state = replace(state, times=kept, seen_ms=max(state.seen_ms, at_ms))
    if _has_enough(rule, state):
        state = replace(state, held_ms=max(state.held_ms, kept[0] + rule.within_ms))
    return state


def _has_enough(rule: Rule, state: KeyState) -> bool:
    times = state.times
    return len(times) == rule.at_least and times[-1] - times[0] < rule.within_ms


def advance(rule: Rule, state: KeyState, now_ms: int) -> Step:
    """What time alone changes until now."""
    changes: tuple[Change, ...] = ()
    while (due := next_due(rule, state)) is not None and due[0] <= now_ms:
        at_ms, signal = due
        state, changes = _applied(rule, state, signal, at_ms, changes)
    return state, changes


def next_due(rule: Rule, state: KeyState) -> tuple[int, Signal] | None:
    """When time alone changes the phase of the key, and how."""
    expires_ms = _expires_ms(rule, state)
    match state.phase:
        case Phase.PENDING:
            due_ms = state.since_ms + rule.for_ms
            if expires_ms is not None and expires_ms <= due_ms:
                return expires_ms, Signal.CLEARS
            return due_ms, Signal.ELAPSED
        case Phase.FIRING:
            return None if expires_ms is None else (expires_ms, Signal.CLEARS)
        case _:
            if rule.absent_for_ms is None:
                return None
            return state.seen_ms + rule.absent_for_ms, Signal.HOLDS


def forgotten_ms(rule: Rule, state: KeyState) -> int | None:
    """When an idle key needs no state any more; None if it always does."""
    if rule.absent_for_ms is not None or state.phase is not Phase.IDLE:
        return None
    return max(state.seen_ms, state.held_ms) + max(KEPT_MS, rule.within_ms)


def _expires_ms(rule: Rule, state: KeyState) -> int | None:
    if rule.absent_for_ms is not None:
        return None
    if rule.counts or rule.resolve_after_ms is not None:
        return state.held_ms + (rule.resolve_after_ms or 0)
    return None


def _applied(rule: Rule, state: KeyState, signal: Signal, at_ms: int, changes: tuple[Change, ...]) -> Step:
    after = TRANSITIONS[state.phase, signal]
    if after is state.phase:
        return state, changes
    since_ms = at_ms if after is Phase.PENDING else state.since_ms
    change = Change(kind=_CHANGES[state.phase, after], at_ms=at_ms, since_ms=since_ms)
    state = replace(state, phase=after, since_ms=since_ms)
    if after is Phase.PENDING and rule.for_ms == 0:
        return _applied(rule, state, Signal.ELAPSED, at_ms, changes)
    return state, (*changes, change)
