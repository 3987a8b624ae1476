"""An erasure in a topic that is not compacted: no tombstone removes a record there.

Retention does, and deletes the archived copies with it; the report has the time. On request, all records up to the
person's last one are deleted, those of others too.
"""

from __future__ import annotations

from msgspec.structs import replace

from headrace.clock import Clock
from headrace.erasure.ledger import Ledger
from headrace.erasure.progress import TopicProgress, TopicState
from headrace.erasure.scan import Found, TopicScanner
from headrace.erasure.topic_configs import TopicConfigs
from headrace.kafka.cluster import Cluster, Partition


class KeptTopic:
    def __init__(self, cluster: Cluster, ledger: Ledger, scanner: TopicScanner, clock: Clock) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._scanner = scanner
        self._clock = clock

    def look(self, erasure_id: str, topic: str, configs: TopicConfigs) -> None:
        """Count the person's records, and note when they will be deleted."""
        erasure = self._ledger.get(erasure_id)
        assert erasure.subject is not None
        progress = next(each for each in erasure.topics if each.topic == topic)
        matcher = erasure.subject.matcher()
        found = self._scanner.stored(topic, matcher)
        now_ms = self._clock.now_ms()
        if found.values:
            changed = _kept(progress, found, configs)
            if erasure.deletes_records:
                self._cluster.delete_records(
                    {Partition(topic, number): offset + 1 for number, offset in found.newest.items()}
                )
                found = self._scanner.stored(topic, matcher)
                changed = replace(changed, values_left=found.values, note=_HIDDEN)
        elif progress.note == _HIDDEN and (progress.until_ms is None or now_ms < progress.until_ms):
            changed = progress  # readers can't see it, but the file of its segment is still there
        else:
            changed = replace(progress, state=TopicState.COMPLETE, values_left=0, complete_ms=now_ms, note="")
        changed = replace(changed, verified={str(number): each for number, each in found.ranges.items()})
        self._ledger.write(erasure.with_topic(changed).closed(now_ms))


_HIDDEN = (
    "no reader gets its records any more; the file of their last segment stays until retention deletes it"
)


def _kept(progress: TopicProgress, found: Found, configs: TopicConfigs) -> TopicProgress:
    until_ms = configs.deleted_by_ms(found.newest_ms)
    copies = ", on disk and in the archive" if configs.is_archived else ""
    if until_ms is None:
        note = (
            f"retention never deletes its records{copies}: encrypt them per person, or use --delete-records"
        )
    else:
        note = f"only retention deletes its records{copies}"
    return replace(
        progress,
        state=TopicState.KEPT if until_ms is None else TopicState.RETENTION,
        records_found=progress.records_found or found.values,
        values_left=found.values,
        until_ms=until_ms,
        note=note,
    )
