"""One alert in memory: its keys and groups, and what records, time and people change. No I/O, time is passed in.

Records and minimum durations go by the time of the records, messages by the clock. `take` returns what the log gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from headrace.alerts import key_state, notifying
from headrace.alerts.book import Book, Counts, Draft, Group, Loaded
from headrace.alerts.definition import Alert
from headrace.alerts.grouped import GroupMessage
from headrace.alerts.history import HistoryEvent, HistoryKind
from headrace.alerts.key_state import Change, ChangeKind, KeyState, Observed, Phase
from headrace.alerts.keys import record_text, text_of, values_from, values_of
from headrace.alerts.message import Message
from headrace.alerts.notifying import NEVER_MS, Tracked
from headrace.alerts.schedule import Schedule
from headrace.alerts.silences import Silence, matches_key, silenced_until
from headrace.alerts.streams import Read
from headrace.conditions import BadCondition, parse_condition

KEYS_MAX = 200_000
"""Of an alert. A key that fires has some kilobytes, here and in the log."""

GROUPS_MAX = 1_000
"""Of an alert: a storm sends at most so many messages at once. Keys of further groups share one."""

OTHERS = "{}"

MESSAGE_KEYS_MAX = 20_000
"""Keys of a message: their states are in its transaction. Others follow in the next one."""

TRANSACTION_BYTES = 8 * 1024 * 1024
"""A transaction is committed when an alert has changed so much; the writer takes eight times as much."""

RECORD_BYTES, TIME_BYTES = 400, 14
"""Of a record of the log without its key, and of a time in it."""

UNREADABLE_EVENTS_MAX = 10
"""In the history, for each transaction: the first show what is wrong, all are counted."""


class AlertEngine:
    def __init__(self, alert: Alert, loaded: Loaded, now_ms: int) -> None:
        self.alert = alert
        self._when = parse_condition(alert.when) if alert.when else None
        self._resolve_when = parse_condition(alert.resolve_when) if alert.resolve_when else None
        is_same = loaded.book is not None and loaded.book.id == alert.id
        self.book = loaded.book if is_same and loaded.book else Book(id=alert.id, counts=Counts())
        self.keys: dict[str, Tracked] = {}
        self.groups: dict[str, Group] = {}
        self.firing_count = 0
        self._members: dict[str, dict[str, None]] = {}
        """by group, the keys that fire or have ended without a message"""
        self._dues = Schedule()
        self._group_dues = Schedule()
        self._changed_keys: dict[str, None] = {}
        self._changed_groups: dict[str, None] = {}
        self._history: list[HistoryEvent] = []
        self._messages: list[tuple[Message, bool]] = []
        self._unreadable = 0
        self.is_changed = False
        """by more than positions, counts and times"""
        self.has_moved = False
        """by anything"""
        self.changed_bytes = 0
        """of the records that the log gets for it; an estimate"""
        if is_same:
            for key, tracked in loaded.keys.items():
                self._put(key, tracked)
            for name, group in loaded.groups.items():
                self._put_group(name, group)
            self._changed_keys.clear()
            self._changed_groups.clear()
            self.is_changed = self.has_moved = False
        else:
            self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        self.is_changed = True
        if self.alert.rule.absent_for_ms is not None and not self.alert.per:
            self._put("{}", Tracked(state=KeyState(seen_ms=now_ms), group=OTHERS))

    # Positions

    def position(self, partition: int) -> int | None:
        """The offset of the next record of the partition; None if it was never read."""
        return self.book.positions.get(str(partition), self.alert.start.get(str(partition)))

    def move(self, partition: int, position: int) -> None:
        self.book.positions[str(partition)] = position
        self.has_moved = True

    # Records and time

    def on_read(self, read: Read, now_ms: int) -> None:
        """A record of the topic, which this alert may have had already: others have positions of their own."""
        if read.offset >= (self.position(read.partition) or 0):
            place = f"{read.topic}-{read.partition}@{read.offset}"
            if read.problem:
                self.book.counts.records += 1
                self._reject(HistoryKind.UNREADABLE, f"{place}: {read.problem}"[:500], now_ms)
            else:
                self.on_record(read.value, read.at_ms, now_ms, place)
            self.move(read.partition, read.offset + 1)

    def on_record(self, value: bytes | None, at_ms: int, now_ms: int, place: str) -> None:
        """A record of the topic. A time in the future counts as now."""
        self.book.counts.records += 1
        if value is None:
            return
        at_ms = min(at_ms, now_ms)
        try:
            record = msgspec.json.decode(value)
            if not isinstance(record, dict):
                raise msgspec.DecodeError("it is no JSON object")
            meets = self._when is None or self._when.holds(record)
            resolves = not meets and self._resolve_when is not None and self._resolve_when.holds(record)
        except (msgspec.DecodeError, BadCondition, RecursionError, UnicodeDecodeError) as error:
            self._reject(HistoryKind.UNREADABLE, f"{place}: {error}"[:500], now_ms)
            return
        key = text_of(values_of(record, self.alert.per))
        tracked = self.keys.get(key)
        if tracked is None:
            if not meets:
                return
            if len(self.keys) >= KEYS_MAX:
                self._reject(HistoryKind.KEYS_FULL, f"{place}: there are {KEYS_MAX:,} keys", now_ms)
                return
            tracked = Tracked(state=KeyState(seen_ms=at_ms))
        if tracked.state.phase is Phase.IDLE and meets and not tracked.endings:
            tracked = replace(tracked, group=self._group_of(record), record=record_text(record))
        state, changes = key_state.observe(
            self.alert.rule, tracked.state, Observed(at_ms=at_ms, meets=meets, resolves=resolves)
        )
        self._apply(key, tracked, state, changes, now_ms)

    def on_time(self, time_ms: int, now_ms: int, limit: int) -> int:
        """Time of the records has passed until `time_ms`. How many keys were due, at most the limit."""
        due = self._dues.take_due(time_ms, limit)
        for key in due:
            tracked = self.keys[key]
            state, changes = key_state.advance(self.alert.rule, tracked.state, time_ms)
            forgotten_ms = key_state.forgotten_ms(self.alert.rule, state)
            is_forgotten = forgotten_ms is not None and forgotten_ms <= time_ms
            if is_forgotten and not changes:
                if now_ms >= tracked.notified_ms + self.alert.notify.cool_down_ms:
                    self._put(key, None)
                    continue
                self._dues.set(key, time_ms + self.alert.notify.cool_down_ms)
                continue
            self._apply(key, tracked, state, changes, now_ms)
        return len(due)

    def _apply(
        self, key: str, tracked: Tracked, state: KeyState, changes: Sequence[Change], now_ms: int
    ) -> None:
        if state == tracked.state and not changes and key in self.keys:
            self._schedule(key, tracked)
            return
        tracked = replace(tracked, state=state)
        for change in changes:
            tracked = self._changed(key, tracked, change)
        self._put(key, tracked)
        if tracked.is_waiting and changes:
            self._plan(tracked.group, now_ms)

    def _changed(self, key: str, tracked: Tracked, change: Change) -> Tracked:
        counts = self.book.counts
        number: int | None = None
        match change.kind:
            case ChangeKind.LATE:
                counts.late += 1
                return tracked
            case ChangeKind.FIRING:
                counts.firings += 1
                self.firing_count += 1
                tracked = notifying.begin(
                    tracked, counts.firings, since_ms=change.since_ms, fired_ms=change.at_ms
                )
                number = counts.firings
            case ChangeKind.RESOLVED:
                self.firing_count -= 1
                assert tracked.firing is not None
                number = tracked.firing.number
                tracked = notifying.end(tracked, change.at_ms)
            case _:
                pass
        self._record(
            HistoryKind(change.kind.value), change.at_ms, key, firing=number, since_ms=change.since_ms
        )
        return tracked

    # People

    def acknowledge(self, matchers: Mapping[str, str], by: str, now_ms: int, *, requested_ms: int) -> int:
        """Acknowledge the firings of the keys that match, of before the request; how many there were."""
        count = 0
        for name in [key for members in self._members.values() for key in members]:
            if not matches_key(matchers, values_from(name)):
                continue
            tracked = notifying.acknowledge(self.keys[name], by, now_ms, requested_ms=requested_ms)
            if tracked is not None and tracked.firing is not None:
                count += 1
                self._put(name, tracked)
                self._record(HistoryKind.ACKNOWLEDGED, now_ms, name, firing=tracked.firing.number, by=by)
        return count

    def on_silences_changed(self, now_ms: int) -> None:
        """What was silenced may be sent now, or later than it was planned."""
        for name in self._members:
            self._plan(name, now_ms, wait_ms=0)

    # Messages

    def send_due(self, silences: Sequence[Silence], now_ms: int) -> None:
        """Decide the messages of groups that are due."""
        for name in self._group_dues.take_due(now_ms, GROUPS_MAX + 1):
            self._send(name, silences, now_ms)

    def _send(self, name: str, silences: Sequence[Silence], now_ms: int) -> None:
        message = GroupMessage(self.alert, values_from(name), now_ms)
        next_ms = NEVER_MS
        for key in [*self._members.get(name, ())]:
            if message.key_count >= MESSAGE_KEYS_MAX or self.changed_bytes > TRANSACTION_BYTES:
                next_ms = now_ms
                break
            tracked = self.keys[key]
            reported = notifying.report(
                self.alert.notify, tracked, self._silenced_until(key, silences, now_ms), now_ms
            )
            message.add(key, tracked, reported)
            for note in reported.notes:
                kind = HistoryKind(note.kind.value)
                self._record(kind, now_ms, key, firing=note.firing, reason=note.reason)
            next_ms = min(next_ms, reported.next_ms)
            if reported.tracked is not tracked:
                self._put(key, reported.tracked)
        group = self.groups.get(name, Group())
        found = message.messages(self.firing_count)
        last_ms = now_ms if found else group.last_ms
        earliest_ms = last_ms + self.alert.notify.group_interval_ms
        if next_ms == NEVER_MS:
            # The group is forgotten after its interval, if nothing happens until then.
            due_ms = earliest_ms if name not in self._members and now_ms < earliest_ms else None
        else:
            due_ms = max(next_ms, earliest_ms)
        self._put_group(name, Group(last_ms=last_ms, due_ms=due_ms))
        for each, is_escalation in found:
            self.add_message(each, is_escalation=is_escalation)

    def _silenced_until(self, key: str, silences: Sequence[Silence], now_ms: int) -> int | None:
        return silenced_until(silences, self.alert.name, values_from(key), now_ms) if silences else None

    def add_message(self, message: Message, *, is_escalation: bool = False) -> None:
        """Number the message, and draft it for the outbox."""
        counts = self.book.counts
        counts.messages += 1
        message = replace(message, id=f"{self.alert.id}-{counts.messages}")
        self._messages.append((message, is_escalation))
        self.is_changed = True

    def _plan(self, name: str, now_ms: int, *, wait_ms: int | None = None) -> None:
        """The group has news: soon, but not before its interval is over."""
        rule, group = self.alert.notify, self.groups.get(name, Group())
        wanted_ms = now_ms + (rule.group_wait_ms if wait_ms is None else wait_ms)
        if group.last_ms:
            wanted_ms = max(wanted_ms, group.last_ms + rule.group_interval_ms)
        if group.due_ms is None or wanted_ms < group.due_ms:
            self._put_group(name, replace(group, due_ms=wanted_ms))

    # What is written

    def count_outcome(self, *, is_delivered: bool) -> None:
        """A target has taken a message, or never will."""
        if is_delivered:
            self.book.counts.delivered += 1
        else:
            self.book.counts.dead += 1
        self.has_moved = True

    def note(self, event: HistoryEvent) -> None:
        self._history.append(event)
        self.changed_bytes += RECORD_BYTES
        self.is_changed = True

    def take(self) -> Draft:
        """Everything since the last call."""
        draft = Draft(
            book=self.book,
            keys={key: self.keys.get(key) for key in self._changed_keys},
            groups={name: self.groups.get(name) for name in self._changed_groups},
            history=tuple(self._history),
            messages=tuple(self._messages),
        )
        self._changed_keys, self._changed_groups, self._history, self._messages = {}, {}, [], []
        self._unreadable = self.changed_bytes = 0
        self.is_changed = self.has_moved = False
        return draft

    def _record(self, kind: HistoryKind, at_ms: int, key: str, **fields: Any) -> None:
        self.note(
            HistoryEvent(at_ms=at_ms, alert=self.alert.name, event=kind, key=values_from(key), **fields)
        )

    def _reject(self, kind: HistoryKind, reason: str, now_ms: int) -> None:
        if kind is HistoryKind.KEYS_FULL:
            self.book.counts.keys_full += 1
        else:
            self.book.counts.unreadable += 1
        self._unreadable += 1
        if self._unreadable <= UNREADABLE_EVENTS_MAX:
            self.note(HistoryEvent(at_ms=now_ms, alert=self.alert.name, event=kind, reason=reason))

    def _group_of(self, record: Mapping[str, Any]) -> str:
        if not self.alert.group_by:
            return OTHERS
        name = text_of(values_of(record, self.alert.group_by))
        return name if name in self.groups or len(self.groups) < GROUPS_MAX else OTHERS

    def _put(self, key: str, tracked: Tracked | None) -> None:
        before = self.keys.get(key)
        if key not in self._changed_keys:
            self._changed_keys[key] = None
            self.changed_bytes += RECORD_BYTES + len(key)
            if tracked is not None:
                self.changed_bytes += len(tracked.record) + TIME_BYTES * len(tracked.state.times)
        self.has_moved = True
        if before is not None and (tracked is None or tracked.group != before.group):
            self._leave(before.group, key)
        if tracked is None:
            self.keys.pop(key, None)
            self._dues.set(key, None)
            return
        self.keys[key] = tracked
        if tracked.firing is not None or tracked.endings:
            self._members.setdefault(tracked.group, {})[key] = None
        else:
            self._leave(tracked.group, key)
        self._schedule(key, tracked)

    def _leave(self, group: str, key: str) -> None:
        members = self._members.get(group)
        if members is not None:
            members.pop(key, None)
            if not members:
                del self._members[group]

    def _schedule(self, key: str, tracked: Tracked) -> None:
        due = key_state.next_due(self.alert.rule, tracked.state)
        due_ms = due[0] if due else key_state.forgotten_ms(self.alert.rule, tracked.state)
        # A key is not forgotten before a message has reported its end.
        self._dues.set(key, None if due is None and tracked.endings else due_ms)

    def _put_group(self, name: str, group: Group | None) -> None:
        self._changed_groups[name] = None
        self.is_changed = True
        if group is None or (group.due_ms is None and name not in self._members):
            self.groups.pop(name, None)
            self._group_dues.set(name, None)
            return
        self.groups[name] = group
        self._group_dues.set(name, group.due_ms)
