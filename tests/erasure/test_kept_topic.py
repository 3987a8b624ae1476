"""Topics that are not compacted: the report says what is there, until when, and the archive is a copy of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace
from headrace.erasure import Eraser, Erasure, ErasureState, Match, Subject, TopicState
from headrace.erasure.topic_configs import read_configs
from headrace.kafka.cluster import Cluster
from tests.erasure.conftest import CreateTopic, read, write

DAY_MS = 86_400_000
CLICKS = [("c1", '{"user": "ada"}'), ("c2", '{"user": "bob"}'), ("ada", "x"), ("c3", '{"user": "bob"}')]
ADA = Subject(key="ada", matches=(Match.parse("user=ada"),))


def erase(cluster: Cluster, *topics: str, deletes_records: bool = False) -> Erasure:
    with Eraser(cluster) as eraser:
        request = eraser.request(ADA, topics, deletes_records=deletes_records)
        return eraser.work(request.id, wait_s=5)


def test_report_has_the_time_by_which_retention_deletes_the_records(
    cluster: Cluster, create_topic: CreateTopic
) -> None:
    topic = create_topic("delete", retention_ms=str(DAY_MS), segment_ms=str(DAY_MS))
    before_ms = time.time_ns() // 1_000_000
    write(cluster, topic, CLICKS)
    done = erase(cluster, topic)
    (progress,) = done.topics
    assert done.state is ErasureState.WAITING
    assert (progress.state, progress.records_found, progress.values_left) == (TopicState.RETENTION, 2, 2)
    assert before_ms + 2 * DAY_MS <= (progress.until_ms or 0) <= time.time_ns() // 1_000_000 + 2 * DAY_MS
    assert len(read(cluster, topic)) == 4, "nothing is deleted that was not asked for"


def test_report_says_that_records_are_kept_forever(cluster: Cluster, create_topic: CreateTopic) -> None:
    topic = create_topic("delete", retention_ms="-1")
    write(cluster, topic, CLICKS)
    (progress,) = erase(cluster, topic).topics
    assert (progress.state, progress.until_ms) == (TopicState.KEPT, None)
    assert "encrypt them per person" in progress.note


def test_topic_without_the_person_is_complete(cluster: Cluster, create_topic: CreateTopic) -> None:
    topic = create_topic("delete")
    write(cluster, topic, [("bob", "x")])
    done = erase(cluster, topic)
    assert done.state is ErasureState.COMPLETE
    assert done.topics[0].verified == {"0": (0, 1)}


def test_erasure_is_complete_when_retention_has_deleted_the_records(
    cluster: Cluster, create_topic: CreateTopic
) -> None:
    topic = create_topic("delete")
    write(cluster, topic, CLICKS)
    waiting = erase(cluster, topic)
    assert waiting.state is ErasureState.WAITING
    (partition,) = cluster.partitions(topic)
    cluster.delete_records({partition: 4})  # as retention does
    with Eraser(cluster) as eraser:
        done = eraser.work(waiting.id)
    assert done.state is ErasureState.COMPLETE
    assert done.subject is None


def test_records_up_to_the_last_of_the_person_are_deleted_on_request(
    cluster: Cluster, create_topic: CreateTopic
) -> None:
    topic = create_topic("delete", retention_ms=str(DAY_MS))
    write(cluster, topic, CLICKS)
    done = erase(cluster, topic, deletes_records=True)
    assert read(cluster, topic) == [(b"c3", b'{"user": "bob"}')]
    # The bytes are in the file of the segment, so it is not complete, and looking again does not make it so.
    with Eraser(cluster) as eraser:
        again = eraser.work(done.id)
    for each in (done, again):
        assert each.state is ErasureState.WAITING
        assert each.topics[0].values_left == 0
        assert "no reader gets its records" in each.topics[0].note


def test_archived_copies_are_reported_and_deleted_with_the_records(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    settings: dict[str, Any] = {"archive_address": str(archive), "archive_interval_ms": 100}
    with headrace.Broker(data_dir=tmp_path / "data", **settings) as broker:
        cluster = Cluster(broker.bootstrap, timeout_s=30)
        config = {"remote.storage.enable": "true", "segment.bytes": "2000", "retention.ms": "-1"}
        cluster.create_topic("clicks", partitions=1, config=config)
        write(cluster, "clicks", [("ada", "secret " + "x" * 1000)])
        for number in range(20):
            write(cluster, "clicks", [(f"k{number}", "y" * 1000)])
        assert read_configs(cluster, "clicks").is_archived
        _until(lambda: _archived_bytes(archive).count(b"secret") == 1)
        kept = erase(cluster, "clicks")
        assert kept.topics[0].state is TopicState.KEPT
        assert "on disk and in the archive" in kept.topics[0].note
        erase(cluster, "clicks", deletes_records=True)
        assert (b"k19", b"y" * 1000) in read(cluster, "clicks")
        # Each record is larger than half of a segment, so the person's segment has no other record.
        _until(lambda: b"secret" not in _archived_bytes(archive))


def _archived_bytes(archive: Path) -> bytes:
    content = b""
    for each in archive.rglob("*.log"):
        with contextlib.suppress(FileNotFoundError):  # the broker deletes them at the same time
            content += each.read_bytes()
    return content


def _until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
