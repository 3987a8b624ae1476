"""An erasure in one compacted topic: tombstones, compaction soon, and the proof that no value is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set

from msgspec.structs import replace

from headrace.clock import Clock
from headrace.erasure.ledger import Ledger, Tombstone
from headrace.erasure.progress import Erasure, TopicProgress, TopicState
from headrace.erasure.scan import Found, KeyAt, TopicScanner
from headrace.erasure.topic_configs import HASTENING, ROLLING, read_configs
from headrace.kafka.cluster import Cluster

CONFIG_APPLIES_S = 0.1
"""Apache Kafka applies a config a moment after its controller has accepted it. Longer than `segment.ms` of `ROLLING`,
too. If it is too short, the next round closes the segment."""

AtStep = Callable[[str], None]


class CompactedTopic:
    """The steps are repeated until the proof succeeds. A crash between any two of them is harmless."""

    def __init__(
        self, cluster: Cluster, ledger: Ledger, scanner: TopicScanner, clock: Clock, at_step: AtStep
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._scanner = scanner
        self._clock = clock
        self._at_step = at_step

    def bury(self, erasure_id: str, topic: str) -> Found:
        """Find the person's records and write tombstones for their keys. Returns what compaction has to remove."""
        erasure, _ = self._current(erasure_id, topic)
        assert erasure.subject is not None
        found = self._scanner.committed(topic, erasure.subject.matcher())
        self._at_step(f"{topic}: found {found.values:,} records")
        if found.values:
            self._hasten(erasure_id, topic)
            self._write_tombstones(erasure_id, topic, found)
            self._close_segments(erasure_id, topic, found.live | found.dead)
        return found

    def prove(self, erasure_id: str, topic: str) -> None:
        """Read the whole topic, aborted transactions too; it is complete if no value of the person is left."""
        erasure, _ = self._current(erasure_id, topic)
        assert erasure.subject is not None
        matcher = erasure.subject.matcher()
        stored = self._scanner.stored(topic, matcher)
        if stored.values:
            self._hasten(erasure_id, topic)
            # Superseded values, and those of aborted transactions. Keys with a committed value wait for the next round,
            # and of other people's keys, this scan can't tell which value counts.
            waiting = self._scanner.committed(topic, matcher).live
            own = {each for each in (stored.live | stored.dead) - waiting if matcher.is_key(each.key)}
            self._close_segments(erasure_id, topic, own)
            self.note_left(erasure_id, topic, stored)
            return
        self._restore(erasure_id, topic)
        erasure, progress = self._current(erasure_id, topic)
        configs, now_ms = read_configs(self._cluster, topic), self._clock.now_ms()
        complete = replace(
            progress,
            state=TopicState.COMPLETE,
            values_left=0,
            verified={str(number): each for number, each in stored.ranges.items()},
            complete_ms=now_ms,
            files_until_ms=now_ms + configs.file_delete_delay_ms if progress.records_found else None,
            tombstones_until_ms=now_ms + configs.delete_retention_ms if progress.tombstones else None,
            settings=None,
            note=_note(progress, stored, erasure.subject is not None and erasure.subject.is_object),
        )
        self._ledger.write(erasure.with_topic(complete).closed(now_ms))
        self._at_step(f"{topic}: complete")

    def note_left(self, erasure_id: str, topic: str, found: Found) -> None:
        erasure, progress = self._current(erasure_id, topic)
        note = ""
        if not found.live and not found.dead:
            note = "what is left is superseded; compaction removes it after the next write to its partition"
        changed = replace(progress, state=TopicState.COMPACTING, values_left=found.values, note=note)
        if changed != progress:
            self._ledger.write(erasure.with_topic(changed))

    def _hasten(self, erasure_id: str, topic: str) -> None:
        erasure, progress = self._current(erasure_id, topic)
        if progress.settings is None:
            # Another open erasure may have changed the configs: its copy is the original one.
            held = self._held_by_others(erasure_id, topic)
            before = read_configs(self._cluster, topic).overrides if held is None else held
            # Durable before the configs change, so that they are restored after a crash.
            self._ledger.write(erasure.with_topic(replace(progress, settings=before)))
            self._at_step(f"{topic}: noted its configs")
        self._cluster.alter_configs("topic", topic, HASTENING)

    def _write_tombstones(self, erasure_id: str, topic: str, found: Found) -> None:
        erasure, progress = self._current(erasure_id, topic)
        tombstones = _tombstones(topic, found.live)
        changed = replace(
            progress,
            state=TopicState.COMPACTING,
            records_found=progress.records_found or found.values,
            values_left=found.values,
            tombstones=progress.tombstones + len(tombstones),
            written_again=progress.written_again + (len(tombstones) if progress.tombstones else 0),
        )
        self._ledger.write(erasure.with_topic(changed), tombstones)
        self._at_step(f"{topic}: wrote {len(tombstones):,} tombstones")

    def _close_segments(self, erasure_id: str, topic: str, keys: Set[KeyAt]) -> None:
        """Brokers don't compact the active segment, which has the tombstones. One more record closes it.

        It repeats a tombstone, which changes nothing for readers.
        """
        _, progress = self._current(erasure_id, topic)
        assert progress.settings is not None
        self._cluster.alter_configs("topic", topic, ROLLING)
        time.sleep(CONFIG_APPLIES_S)
        self._ledger.write_tombstones(_tombstones(topic, {each.partition: each for each in keys}.values()))
        self._cluster.alter_configs("topic", topic, {name: progress.settings.get(name) for name in ROLLING})
        self._at_step(f"{topic}: closed the segments of the tombstones")

    def _restore(self, erasure_id: str, topic: str) -> None:
        _, progress = self._current(erasure_id, topic)
        if progress.settings is not None and self._held_by_others(erasure_id, topic) is None:
            self._cluster.alter_configs("topic", topic, progress.settings)
            self._at_step(f"{topic}: restored its configs")

    def _held_by_others(self, erasure_id: str, topic: str) -> dict[str, str | None] | None:
        for erasure in self._ledger.erasures.values():
            for each in erasure.topics:
                if erasure.id != erasure_id and each.topic == topic and each.settings is not None:
                    return each.settings
        return None

    def _current(self, erasure_id: str, topic: str) -> tuple[Erasure, TopicProgress]:
        erasure = self._ledger.get(erasure_id)
        return erasure, next(each for each in erasure.topics if each.topic == topic)


def _tombstones(topic: str, keys: Iterable[KeyAt]) -> list[Tombstone]:
    return [Tombstone(topic=topic, partition=each.partition, key=each.key) for each in keys]


def _note(progress: TopicProgress, stored: Found, is_object: bool) -> str:
    notes = []
    if not progress.records_found and stored.has_object_keys and not is_object:
        notes.append('its keys are JSON objects: write KEY as JSON, such as {"id": 1}')
    if progress.written_again:
        notes.append("the key got new values after its tombstone: a source still has the person")
    if stored.unreadable:
        notes.append(f"{stored.unreadable:,} values are not JSON, and were not searched for fields")
    return "; ".join(notes)
