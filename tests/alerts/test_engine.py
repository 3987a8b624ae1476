"""An alert in memory: keys, groups and bounds, and the promises about messages for any sequence of events."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition
from hypothesis.stateful import rule as step

from headrace.alerts import engine as engine_module
from headrace.alerts.book import Book, Draft, Group, Loaded, removal
from headrace.alerts.definition import Alert
from headrace.alerts.engine import AlertEngine
from headrace.alerts.history import HistoryKind
from headrace.alerts.key_state import Phase, Rule
from headrace.alerts.message import LISTED_MAX, Message, MessageKind
from headrace.alerts.notifying import NotifyRule, Tracked
from headrace.alerts.silences import Silence
from headrace.alerts.streams import Read


def alert(**fields: Any) -> Alert:
    named = {"name": "errors", "id": "a1", "topic": "logs", "created_ms": 0, "when": "level = 'ERROR'"}
    return Alert(
        **{**named, "per": ("service",), "notify": NotifyRule(group_wait_ms=0, group_interval_ms=0), **fields}
    )


def record(service: str, level: str = "ERROR", **fields: Any) -> bytes:
    return json.dumps({"service": service, "level": level, **fields}).encode()


class Driven:
    """An engine, and everything that it has drafted."""

    def __init__(self, definition: Alert | None = None) -> None:
        self.engine = AlertEngine(definition or alert(), Loaded(), 0)
        self.drafts: list[Draft] = []
        self.offset = 0

    def write(self, value: bytes, at_ms: int) -> None:
        self.engine.on_read(Read("logs", 0, self.offset, at_ms, value), at_ms)
        self.offset += 1

    def pass_time(self, now_ms: int, silences: tuple[Silence, ...] = ()) -> list[Message]:
        self.engine.on_time(now_ms, now_ms, 1_000_000)
        self.engine.send_due(silences, now_ms)
        draft = self.engine.take()
        self.drafts.append(draft)
        return [message for message, _ in draft.messages]

    @property
    def history(self) -> list[HistoryKind]:
        return [each.event for draft in self.drafts for each in draft.history]


def test_keys_fire_by_themselves_and_share_a_message() -> None:
    driven = Driven()
    driven.write(record("a"), 10)
    driven.write(record("b"), 10)
    (message,) = driven.pass_time(10)
    assert [each.key for each in message.firing] == [{"service": "a"}, {"service": "b"}]
    assert (message.kind, message.firing_count, message.total_firing) == (MessageKind.FIRING, 2, 2)
    driven.write(record("a", "INFO"), 20)
    (message,) = driven.pass_time(20)
    assert (message.kind, [each.firing for each in message.resolved]) == (MessageKind.RESOLVED, [1])


def test_groups_have_messages_of_their_own() -> None:
    driven = Driven(alert(group_by=("team",)))
    for service, team in (("a", "red"), ("b", "blue"), ("c", "red")):
        driven.write(record(service, team=team), 10)
    found = {json.dumps(each.group): each.firing_count for each in driven.pass_time(10)}
    assert found == {'{"team": "red"}': 2, '{"team": "blue"}': 1}


def test_message_waits_for_its_group_and_for_the_interval() -> None:
    driven = Driven(alert(notify=NotifyRule(group_wait_ms=100, group_interval_ms=1_000)))
    driven.write(record("a"), 10)
    assert driven.pass_time(109) == []
    driven.write(record("b"), 109)
    assert [each.firing_count for each in driven.pass_time(110)] == [2]
    driven.write(record("a", "INFO"), 200)
    assert driven.pass_time(1_109) == []
    assert [each.resolved_count for each in driven.pass_time(1_110)] == [1]


def test_storm_is_one_message_with_a_bounded_list_that_counts_what_it_cuts() -> None:
    driven = Driven()
    for number in range(1_000):
        driven.write(record(f"s{number}"), 10)
    (message,) = driven.pass_time(10)
    assert (message.firing_count, len(message.firing), message.cut) == (1_000, LISTED_MAX, 950)


def test_storm_beyond_a_message_follows_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "MESSAGE_KEYS_MAX", 400)
    driven = Driven()
    for number in range(1_000):
        driven.write(record(f"s{number}"), 10)
    counts = [message.firing_count for at_ms in (10, 11, 12, 13) for message in driven.pass_time(at_ms)]
    assert counts == [400, 400, 200]


def test_transaction_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "TRANSACTION_BYTES", 100_000)
    driven = Driven(alert(rule=Rule(at_least=50, within_ms=1_000)))
    for number in range(200):
        for _ in range(50):
            driven.write(record(f"s{number}", text="x" * 500), 10)
        driven.engine.take()
    counts, sizes = [], []
    for at_ms in range(10, 40):
        counts += [message.firing_count for message in driven.pass_time(at_ms)]
        sizes.append(sum(len(msgspec.json.encode(each)) for each in driven.drafts[-1].keys.values()))
    assert sum(counts) == 200
    assert max(sizes) < 150_000


def test_key_whose_end_was_not_reported_is_not_forgotten() -> None:
    driven = Driven()
    driven.write(record("a"), 10)
    driven.pass_time(10)
    silence = Silence(id="s", start_ms=0, end_ms=1 << 50)
    driven.write(record("a", "INFO"), 20)
    assert driven.pass_time(10_000_000, (silence,)) == []
    assert driven.engine.on_time(20_000_000, 20_000_000, 10) == 0
    driven.engine.on_silences_changed(20_000_000)
    assert [each.resolved_count for each in driven.pass_time(20_000_000)] == [1]
    driven.pass_time(20_000_001)
    assert driven.engine.keys == {}


def test_groups_beyond_the_bound_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "GROUPS_MAX", 5)
    driven = Driven(alert(group_by=("service",)))
    for number in range(100):
        driven.write(record(f"s{number}"), 10)
    messages = driven.pass_time(10)
    assert len(messages) <= 6
    assert sum(each.firing_count for each in messages) == 100


def test_keys_beyond_the_bound_are_counted_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "KEYS_MAX", 3)
    driven = Driven()
    for number in range(30):
        driven.write(record(f"s{number}"), 10)
    assert [each.firing_count for each in driven.pass_time(10)] == [3]
    assert driven.engine.book.counts.keys_full == 27
    assert driven.history.count(HistoryKind.KEYS_FULL) == engine_module.UNREADABLE_EVENTS_MAX


@pytest.mark.parametrize("value", [b"{", b"[1]", b"7", b"\xff", b'{"level": 7}', b"[" * 100_000])
def test_record_that_cannot_be_judged_is_in_the_history_with_its_place(value: bytes) -> None:
    driven = Driven(alert(when="level > 'A'"))
    driven.write(value, 10)
    driven.pass_time(10)
    (event,) = driven.drafts[0].history
    assert (event.event, event.reason[:9]) == (HistoryKind.UNREADABLE, "logs-0@0:")
    assert driven.engine.book.counts.unreadable == 1


def test_tombstones_and_records_of_before_the_position_are_skipped() -> None:
    driven = Driven(alert(start={"0": 5}))
    driven.engine.on_read(Read("logs", 0, 4, 10, record("a")), 10)
    driven.engine.on_read(Read("logs", 0, 5, 10, None), 10)
    assert driven.pass_time(10) == []
    assert driven.engine.position(0) == 6


def test_time_of_a_record_in_the_future_is_now() -> None:
    driven = Driven(alert(rule=Rule(resolve_after_ms=100)))
    driven.engine.on_read(Read("logs", 0, 0, 10_000_000, record("a")), 10)
    driven.pass_time(10)
    assert [each.resolved_count for each in driven.pass_time(110)] == [1]


def test_state_after_a_restart_is_the_state_before() -> None:
    definition = alert(rule=Rule(for_ms=50), notify=NotifyRule(group_wait_ms=20, repeat_ms=500))
    driven = Driven(definition)
    driven.write(record("a"), 10)
    driven.pass_time(10)
    driven.pass_time(60)
    loaded = Loaded()
    for draft in driven.drafts:
        loaded.book = msgspec.json.decode(msgspec.json.encode(draft.book), type=Book)
        for key, tracked in draft.keys.items():
            loaded.keys[key] = msgspec.json.decode(msgspec.json.encode(tracked), type=Tracked)
        for name, group in draft.groups.items():
            loaded.groups[name] = msgspec.json.decode(msgspec.json.encode(group), type=Group)
    driven.engine = AlertEngine(definition, loaded, 70)
    assert [each.firing_count for each in driven.pass_time(80)] == [1]
    assert [each.firing[0].is_repeated for each in driven.pass_time(20_000)] == [True]


def test_alert_with_another_id_begins_anew() -> None:
    driven = Driven()
    driven.write(record("a"), 10)
    loaded = Loaded(book=driven.engine.book, keys=driven.engine.keys, groups=driven.engine.groups)
    assert AlertEngine(alert(id="a2"), loaded, 20).keys == {}
    gone = removal("errors", loaded, 20)
    assert (gone.book, list(gone.keys.values())) == (None, [None])
    assert [(each.event, each.firing) for each in gone.history] == [(HistoryKind.REMOVED, 1)]


def test_topic_that_never_had_a_record_is_absent() -> None:
    driven = Driven(alert(when="", per=(), rule=Rule(absent_for_ms=100)))
    assert driven.pass_time(99) == []
    assert [each.firing_count for each in driven.pass_time(100)] == [1]
    driven.write(b"{}", 150)
    assert [each.resolved_count for each in driven.pass_time(150)] == [1]


def test_new_key_is_not_absent_before_its_first_record() -> None:
    driven = Driven(alert(when="", rule=Rule(absent_for_ms=100)))
    driven.write(record("a"), 1_000_000)
    assert driven.pass_time(1_000_099) == []
    assert [each.firing_count for each in driven.pass_time(1_000_100)] == [1]


def test_key_that_has_resolved_is_forgotten() -> None:
    driven = Driven()
    driven.write(record("a"), 10)
    driven.write(record("a", "INFO"), 20)
    driven.pass_time(20)
    driven.pass_time(20 + 3_600_000)
    assert (driven.engine.keys, driven.engine.groups) == ({}, {})
    assert driven.drafts[-1].keys == {'{"service":"a"}': None}


def test_acknowledgement_is_for_keys_that_match() -> None:
    driven = Driven()
    driven.write(record("api-1"), 10)
    driven.write(record("db-1"), 10)
    assert driven.engine.acknowledge({"service": "api*"}, "ann", 20, requested_ms=15) == 1
    assert driven.engine.acknowledge({"service": "api*"}, "ann", 20, requested_ms=15) == 0


KEYS = ("a", "b")
SILENCE_MS = 150


class Promises(RuleBasedStateMachine):
    """No notification while silenced; each firing is reported at most once as firing, and exactly once as resolved if a
    message reported it; nothing is left unreported."""

    @initialize(
        rule=st.sampled_from(
            [
                Rule(),
                Rule(for_ms=30),
                Rule(resolve_after_ms=60),
                Rule(at_least=2, within_ms=80),
                Rule(has_resolve_when=True),
                Rule(absent_for_ms=100),
            ]
        ),
        notify=st.builds(
            NotifyRule,
            group_wait_ms=st.sampled_from([0, 20]),
            group_interval_ms=st.sampled_from([0, 50]),
            cool_down_ms=st.sampled_from([0, 200]),
            repeat_ms=st.sampled_from([None, 90]),
            escalate_after_ms=st.sampled_from([None, 120]),
        ),
    )
    def begin(self, rule: Rule, notify: NotifyRule) -> None:
        self.rule, self.notify = rule, notify
        resolve_when = "level = 'OK'" if rule.has_resolve_when else ""
        self.driven = Driven(alert(rule=rule, notify=notify, resolve_when=resolve_when))
        self.now_ms = 1_000
        self.silences: tuple[Silence, ...] = ()
        self.notified_firing: list[int] = []
        self.notified_resolved: list[int] = []
        self.escalated: list[int] = []

    @step(
        key=st.sampled_from(KEYS),
        level=st.sampled_from(["ERROR", "INFO", "OK"]),
        age_ms=st.sampled_from([0, 0, 15]),
    )
    def write(self, key: str, level: str, age_ms: int) -> None:
        self.driven.write(record(key, level), self.now_ms - age_ms)

    @step(step_ms=st.sampled_from([1, 10, 60, 300]))
    def wait(self, step_ms: int) -> None:
        self.now_ms += step_ms
        self.send()

    @step(key=st.sampled_from((*KEYS, "*")))
    @precondition(lambda self: not self.silences)
    def silence(self, key: str) -> None:
        self.silences = (
            Silence(id="s", start_ms=self.now_ms, end_ms=self.now_ms + SILENCE_MS, key={"service": key}),
        )
        self.driven.engine.on_silences_changed(self.now_ms)

    @step()
    @precondition(lambda self: self.silences)
    def end_silence(self) -> None:
        self.silences = ()
        self.driven.engine.on_silences_changed(self.now_ms)

    @step(key=st.sampled_from(KEYS))
    def acknowledge(self, key: str) -> None:
        self.driven.engine.acknowledge({"service": key}, "ann", self.now_ms, requested_ms=self.now_ms)

    def send(self) -> None:
        for message in self.driven.pass_time(self.now_ms, self.silences):
            for each in (*message.firing, *message.resolved):
                assert not any(
                    one.is_active(self.now_ms) and one.matches("errors", each.key) for one in self.silences
                )
            if message.kind is MessageKind.ESCALATION:
                self.escalated += [each.firing for each in message.firing]
            else:
                self.notified_firing += [each.firing for each in message.firing if not each.is_repeated]
        for draft in self.driven.drafts[-1:]:
            for message, is_escalation in draft.messages:
                if not is_escalation:
                    self.notified_resolved += [each.firing for each in message.resolved]

    @invariant()
    def nothing_is_notified_twice(self) -> None:
        for reported in (self.notified_firing, self.notified_resolved, self.escalated):
            assert len(reported) == len(set(reported))

    @invariant()
    def firings_end_or_still_fire(self) -> None:
        engine = self.driven.engine
        firing = [each for each in engine.keys.values() if each.state.phase is Phase.FIRING]
        assert engine.firing_count == len(firing)
        assert all(
            (each.firing is not None) == (each.state.phase is Phase.FIRING) for each in engine.keys.values()
        )

    def teardown(self) -> None:
        if not hasattr(self, "driven"):
            return
        self.end_silence()
        for key in KEYS:
            self.driven.write(record(key, "OK"), self.now_ms)
        for _ in range(20):
            self.now_ms += 500
            self.send()
        self.nothing_is_notified_twice()
        still = {each.firing.number for each in self.driven.engine.keys.values() if each.firing is not None}
        assert not still or self.rule.absent_for_ms is not None
        assert set(self.notified_firing) <= set(self.notified_resolved) | still
        numbers = set(range(1, self.driven.engine.book.counts.firings + 1))
        suppressed = {
            each.firing
            for draft in self.driven.drafts
            for each in draft.history
            if each.event is HistoryKind.SUPPRESSED
        }
        assert numbers == set(self.notified_resolved) | suppressed | still
        assert not set(self.notified_resolved) & (suppressed | still)


Promises.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPromises = Promises.TestCase
