"""All alerts in memory, and the transactions that make their changes durable.

A transaction has the positions, the states, the history and the outbox. A message is sent after the transaction that
decides it, and marked as sent by a later one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headrace.alerts import points
from headrace.alerts.book import Loaded, removal
from headrace.alerts.definition import Alert
from headrace.alerts.delivery import Delivery
from headrace.alerts.engine import TRANSACTION_BYTES, AlertEngine
from headrace.alerts.history import HistoryEvent, HistoryKind
from headrace.alerts.lanes import WAITING_MAX, Lanes, Outcome
from headrace.alerts.message import Message, Waiting
from headrace.alerts.rendering import rendered
from headrace.alerts.state_log import StateLog, Stored
from headrace.events.records import OutRecord

DEAD_TEXT_CHARS_MAX = 10_000
"""Of the text of a dead message, in the history."""


class Desk:
    def __init__(self, log: StateLog, lanes: Lanes, delivery: Delivery) -> None:
        self._log = log
        self._lanes = lanes
        self._delivery = delivery
        self.engines: dict[str, AlertEngine] = {}
        self._leftovers: list[OutRecord] = []
        """what deletes alerts that were removed"""

    def load(self, stored: Stored, alerts: Mapping[str, Alert], now_ms: int) -> None:
        """Everything as the log has it. Alerts without a definition are deleted from it."""
        self._leftovers = []
        self.engines = {}
        for name, loaded in stored.alerts.items():
            alert = alerts.get(name)
            if alert is None or (loaded.book is not None and loaded.book.id != alert.id):
                self._leftovers += self._log.records_of(name, removal(name, loaded, now_ms))
        for name, alert in alerts.items():
            self.engines[name] = AlertEngine(alert, stored.alerts.get(name, Loaded()), now_ms)
        self._delivery.alerts = dict(alerts)
        self._lanes.keep(stored.waiting)
        for waiting in stored.waiting.values():
            self._lanes.add(waiting)

    def change(self, alerts: Mapping[str, Alert], now_ms: int) -> None:
        """The definitions are these now."""
        for name, engine in [*self.engines.items()]:
            alert = alerts.get(name)
            if alert is None or alert.id != engine.alert.id:
                loaded = Loaded(book=engine.book, keys=engine.keys, groups=engine.groups)
                self._leftovers += self._log.records_of(name, removal(name, loaded, now_ms))
                del self.engines[name]
        for name, alert in alerts.items():
            if name not in self.engines:
                self.engines[name] = AlertEngine(alert, Loaded(), now_ms)
        self._delivery.alerts = dict(alerts)

    @property
    def is_changed(self) -> bool:
        """Whether there is more to write than positions."""
        return bool(self._leftovers) or any(each.is_changed for each in self.engines.values())

    @property
    def has_moved(self) -> bool:
        return any(each.has_moved for each in self.engines.values())

    @property
    def is_full(self) -> bool:
        """Whether a transaction has enough to write."""
        return sum(each.changed_bytes for each in self.engines.values()) > TRANSACTION_BYTES

    def commit(self, now_ms: int) -> None:
        """Write everything that has changed, and start to send what was decided."""
        outcomes = self._lanes.outcomes()
        if any(each.is_over for each in outcomes):
            points.reached("before-mark")
        records = self._leftovers + self._outcome_records(outcomes)
        decided: list[Waiting] = []
        for name, engine in self.engines.items():
            if not (engine.has_moved or engine.is_changed):
                continue
            draft = engine.take()
            events: list[HistoryEvent] = []
            for message, is_escalation in draft.messages:
                waiting, noted = self._addressed(engine.alert, message, is_escalation, decided)
                decided += waiting
                events += noted
            engine.book.counts.dead += sum(each.event is HistoryKind.DEAD for each in events)
            records += self._log.records_of(name, draft)
            records += self._log.history_records(events)
        records += self._log.waiting_records(decided)
        points.reached("decided")
        self._log.commit(records)
        points.reached("committed")
        self._leftovers = []
        self._lanes.marked(outcomes)
        if outcomes:
            points.reached("marked")
        for each in decided:
            self._lanes.add(each)

    def _addressed(
        self, alert: Alert, message: Message, is_escalation: bool, before: Sequence[Waiting]
    ) -> tuple[list[Waiting], list[HistoryEvent]]:
        """A copy for each target. A target with too many waiting messages gets none: it is dead already."""
        targets = alert.escalate_to if is_escalation else alert.to
        counted = Counter(each.target for each in before)
        waiting = []
        events = [_event(message, HistoryKind.NOTIFYING, message.at_ms)]
        for target in targets:
            each = Waiting(message=message, target=target.id)
            if self._lanes.count(target.id) + counted[target.id] < WAITING_MAX:
                waiting.append(each)
            else:
                reason = f"{WAITING_MAX} messages wait for this target"
                events.append(self._dead(each, message.at_ms, reason, attempt=0))
        return waiting, events

    def _outcome_records(self, outcomes: Iterable[Outcome]) -> list[OutRecord]:
        events, taken = [], []
        for each in outcomes:
            waiting = each.waiting
            if each.is_over:
                taken.append(waiting.id)
                engine = self.engines.get(waiting.message.alert)
                if engine is not None:
                    engine.count_outcome(is_delivered=each.is_delivered)
            if each.is_dead:
                events.append(self._dead(waiting, each.at_ms, each.reason, attempt=each.attempt))
                continue
            events.append(
                _event(
                    waiting.message,
                    HistoryKind.DELIVERED if each.is_delivered else HistoryKind.RETRYING,
                    each.at_ms,
                    target=self._delivery.address(waiting),
                    attempt=each.attempt,
                    reason=each.reason,
                )
            )
        return [*self._log.taken_records(taken), *self._log.history_records(events)]

    def _dead(self, waiting: Waiting, at_ms: int, reason: str, *, attempt: int) -> HistoryEvent:
        engine = self.engines.get(waiting.message.alert)
        text = "" if engine is None else rendered(waiting.message, engine.alert.templates).text
        return _event(
            waiting.message,
            HistoryKind.DEAD,
            at_ms,
            target=self._delivery.address(waiting),
            attempt=attempt,
            reason=reason,
            text=text[:DEAD_TEXT_CHARS_MAX],
        )


def _event(message: Message, kind: HistoryKind, at_ms: int, **fields: object) -> HistoryEvent:
    return HistoryEvent(
        at_ms=at_ms,
        alert=message.alert,
        event=kind,
        message=message.id,
        kind=message.kind.value,
        firing_count=message.firing_count,
        resolved_count=message.resolved_count,
        **fields,  # type: ignore[arg-type]
    )
