"""The messages of one group: what its keys report, gathered, with the lists cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.alerts.definition import Alert
from headrace.alerts.keys import values_from
from headrace.alerts.message import LISTED_MAX, ListedKey, Message, MessageKind, decoded
from headrace.alerts.notifying import Ending, Firing, Reported, Tracked


class _Lists:
    def __init__(self) -> None:
        self.firing: list[ListedKey] = []
        self.resolved: list[ListedKey] = []
        self.firing_count = self.resolved_count = self.uncounted = 0

    def add_firing(self, key: str, firing: Firing, record: str, *, is_repeated: bool) -> None:
        self.firing_count += 1
        if len(self.firing) < LISTED_MAX:
            self.firing.append(
                ListedKey(
                    key=values_from(key),
                    firing=firing.number,
                    since_ms=firing.since_ms,
                    fired_ms=firing.fired_ms,
                    is_repeated=is_repeated,
                    record=decoded(record),
                )
            )

    def add_ending(self, key: str, ending: Ending, record: str) -> None:
        self.resolved_count += 1
        if len(self.resolved) < LISTED_MAX:
            firing = ending.firing
            self.resolved.append(
                ListedKey(
                    key=values_from(key),
                    firing=firing.number,
                    since_ms=firing.since_ms,
                    fired_ms=firing.fired_ms,
                    resolved_ms=ending.ended_ms,
                    record=decoded(record),
                )
            )

    @property
    def is_empty(self) -> bool:
        return not (self.firing_count or self.resolved_count)


class GroupMessage:
    """The message of a group, and that of its escalation."""

    def __init__(self, alert: Alert, group: Mapping[str, Any], now_ms: int) -> None:
        self._alert = alert
        self._group = group
        self._now_ms = now_ms
        self._plain = _Lists()
        self._escalated = _Lists()
        self.key_count = 0
        """keys that are in a message, also those that the lists cut"""

    def add(self, key: str, tracked: Tracked, reported: Reported) -> None:
        """What one key reports; `tracked` is its state before."""
        if reported.has_news:
            self.key_count += 1
        firing = reported.tracked.firing
        if firing is not None and (reported.fires or reported.repeats):
            self._plain.add_firing(key, firing, tracked.record, is_repeated=reported.repeats)
        if firing is not None and reported.escalates:
            self._escalated.add_firing(key, firing, tracked.record, is_repeated=False)
        for ending in reported.ended:
            self._plain.add_ending(key, ending, tracked.record)
            if ending.firing.escalated_ms is not None:
                self._escalated.add_ending(key, ending, tracked.record)
        self._plain.uncounted += tracked.endings_cut - reported.tracked.endings_cut

    def messages(self, total_firing: int) -> list[tuple[Message, bool]]:
        """Without ids; and whether each is for the targets of the escalation."""
        found = []
        for lists, is_escalation in ((self._plain, False), (self._escalated, True)):
            if lists.is_empty:
                continue
            firing_kind = MessageKind.ESCALATION if is_escalation else MessageKind.FIRING
            message = Message(
                id="",
                alert=self._alert.name,
                topic=self._alert.topic,
                kind=firing_kind if lists.firing_count else MessageKind.RESOLVED,
                at_ms=self._now_ms,
                when=self._alert.when,
                group=self._group,
                firing=tuple(lists.firing),
                resolved=tuple(lists.resolved),
                firing_count=lists.firing_count,
                resolved_count=lists.resolved_count,
                uncounted=lists.uncounted,
                total_firing=total_firing,
            )
            found.append((message, is_escalation))
        return found
