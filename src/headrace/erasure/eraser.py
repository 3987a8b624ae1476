"""Works on the erasures of a cluster, step by step; each step is durable before the next."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypedDict, Unpack

from msgspec.structs import replace

from headrace.clock import Clock, SystemClock
from headrace.erasure.compacted_topic import AtStep, CompactedTopic
from headrace.erasure.errors import BadErasure
from headrace.erasure.kept_topic import KeptTopic
from headrace.erasure.ledger import LEDGER_TOPIC, Ledger
from headrace.erasure.place import Place
from headrace.erasure.progress import (
    Erasure,
    ErasureState,
    PlaceProgress,
    TopicProgress,
    TopicState,
    digest_of,
)
from headrace.erasure.scan import Found, TopicScanner
from headrace.erasure.subject import Subject
from headrace.erasure.topic_configs import read_configs
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import UNKNOWN_TOPIC, RequestFailed
from headrace.kafka.settings import client_settings

PATIENCE_S = 2.0
"""How long a round waits for compaction at first, before it writes another tombstone to close the segment."""

PATIENCE_S_MAX = 30.0
"""Two intervals of a cleaner, by default."""

LOOK_S = 0.2


class EraserOptions(TypedDict, total=False):
    places: Sequence[Place]
    clock: Clock | None
    at_step: AtStep


class Eraser:
    """The process that works on erasures: opening it stops the one that did so before.

    `at_step` is called after each durable step, with a line for people.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        places: Sequence[Place] = (),
        clock: Clock | None = None,
        at_step: AtStep = lambda _step: None,
    ) -> None:
        self._cluster = cluster
        self._places = {each.name: each for each in places}
        self._clock = clock or SystemClock()
        self._at_step = at_step
        self._ledger = Ledger(cluster)
        self._scanner = TopicScanner(cluster)
        self._compacted = CompactedTopic(cluster, self._ledger, self._scanner, self._clock, at_step)
        self._kept = KeptTopic(cluster, self._ledger, self._scanner, self._clock)

    @classmethod
    def connect(cls, bootstrap: str | None = None, **options: Unpack[EraserOptions]) -> Self:
        """Work on the erasures of the broker at this address; by default of the settings, as commands do."""
        settings = client_settings(bootstrap)
        return cls(Cluster(settings.bootstrap, timeout_s=settings.timeout_s), **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.close()

    def request(self, subject: Subject, topics: Sequence[str], *, deletes_records: bool = False) -> Erasure:
        """A durable request: from here on a crash does not lose it."""
        if LEDGER_TOPIC in topics:
            raise BadErasure(
                f"{LEDGER_TOPIC} is the list of the erasures themselves",
                hint="a complete erasure has no key there; leave it out",
            )
        self._cluster.require_topics(topics)
        erasure_id = uuid.uuid4().hex[:12]
        erasure = Erasure(
            id=erasure_id,
            subject=subject,
            digest=digest_of(erasure_id, subject),
            requested_ms=self._clock.now_ms(),
            topics=tuple(TopicProgress(topic=each) for each in dict.fromkeys(topics)),
            places=tuple(PlaceProgress(name=each) for each in self._places),
            deletes_records=deletes_records,
        )
        self._ledger.write(erasure)
        self._at_step(f"erasure {erasure_id} is requested")
        return erasure

    def open_erasures(self) -> list[Erasure]:
        return [each for each in self._ledger.erasures.values() if each.state is ErasureState.OPEN]

    def work(self, erasure_id: str, *, wait_s: float = 0.0) -> Erasure:
        """Take the next steps of this erasure and of all open ones; with `wait_s` until this one is no longer open."""
        self._ledger.get(erasure_id)
        deadline_s = self._clock.monotonic_s() + wait_s
        patience_s = PATIENCE_S
        while True:
            started_s = self._clock.monotonic_s()
            ids = dict.fromkeys([erasure_id, *(each.id for each in self.open_erasures())])
            left_s = max(deadline_s - self._clock.monotonic_s(), 0.0)
            for each in ids:
                self._round(each, min(patience_s, left_s))
            erasure = self._ledger.get(erasure_id)
            if erasure.state is not ErasureState.OPEN or self._clock.monotonic_s() >= deadline_s:
                return erasure
            if not self._waits_for_compaction(erasure):
                return erasure
            # A round that waited for nothing found values that only a later pass of the broker removes.
            time.sleep(max(started_s + min(patience_s, left_s) - self._clock.monotonic_s(), 0.0))
            patience_s = min(2 * patience_s, PATIENCE_S_MAX)

    def _waits_for_compaction(self, erasure: Erasure) -> bool:
        """Otherwise it waits for a place that this process was not given."""
        return any(each.state in (TopicState.PENDING, TopicState.COMPACTING) for each in erasure.topics)

    def _round(self, erasure_id: str, patience_s: float) -> None:
        if self._ledger.get(erasure_id).complete_ms is not None:
            return
        waiting: dict[str, Found] = {}
        for each in self._ledger.get(erasure_id).topics:
            if each.state is not TopicState.COMPLETE:
                found = self._start(erasure_id, each.topic)
                if found is not None:
                    waiting[each.topic] = found
        self._erase_places(erasure_id)
        for topic in self._gone(waiting, patience_s):
            self._compacted.prove(erasure_id, topic)
            waiting.pop(topic)
        for topic, found in waiting.items():
            self._compacted.note_left(erasure_id, topic, found)

    def _start(self, erasure_id: str, topic: str) -> Found | None:
        """What compaction has to remove from the topic; None if compaction does not reach it."""
        try:
            configs = read_configs(self._cluster, topic)
            self._ledger_policy(erasure_id, topic, configs.policy, is_archived=configs.is_archived)
            if configs.is_compacted:
                return self._compacted.bury(erasure_id, topic)
            self._kept.look(erasure_id, topic, configs)
        except RequestFailed as error:
            if error.code != UNKNOWN_TOPIC or topic in self._cluster.topics():
                raise
            self._close_deleted(erasure_id, topic)
        return None

    def _ledger_policy(self, erasure_id: str, topic: str, policy: str, *, is_archived: bool) -> None:
        erasure = self._ledger.get(erasure_id)
        progress = next(each for each in erasure.topics if each.topic == topic)
        if (progress.policy, progress.is_archived) != (policy, is_archived):
            self._ledger.write(erasure.with_topic(replace(progress, policy=policy, is_archived=is_archived)))

    def _close_deleted(self, erasure_id: str, topic: str) -> None:
        erasure = self._ledger.get(erasure_id)
        progress = next(each for each in erasure.topics if each.topic == topic)
        now_ms = self._clock.now_ms()
        gone = replace(
            progress,
            state=TopicState.COMPLETE,
            values_left=0,
            complete_ms=now_ms,
            settings=None,
            note="the topic was deleted",
        )
        self._ledger.write(erasure.with_topic(gone).closed(now_ms))

    def _gone(self, waiting: dict[str, Found], patience_s: float) -> list[str]:
        """The topics from which the person's last value was removed; waits for it up to `patience_s`."""
        deadline_s = self._clock.monotonic_s() + patience_s
        gone: dict[str, None] = {}
        while True:
            for topic, found in waiting.items():
                if topic not in gone and self._scanner.is_gone(topic, found.newest):
                    gone[topic] = None
            if len(gone) == len(waiting) or self._clock.monotonic_s() >= deadline_s:
                return list(gone)
            time.sleep(LOOK_S)

    def _erase_places(self, erasure_id: str) -> None:
        for progress in self._ledger.get(erasure_id).places:
            place = self._places.get(progress.name)
            erasure = self._ledger.get(erasure_id)
            if place is None or progress.complete_ms is not None or erasure.subject is None:
                continue
            found = progress.found or place.remaining(erasure.subject)
            place.erase(erasure.subject)
            left = place.remaining(erasure.subject)
            now_ms = self._clock.now_ms()
            changed = replace(progress, found=found, left=left, complete_ms=None if left else now_ms)
            self._ledger.write(erasure.with_place(changed).closed(now_ms))
            self._at_step(f"{progress.name}: {left:,} rows are left")
