"""Erasure in a compacted topic: the values are gone, the configs are as before, whatever was killed in between."""

from __future__ import annotations

import json
import threading

import pytest
from confluent_kafka import Producer

from headrace.erasure import Eraser, ErasureState, Match, Subject, TopicProgress, TopicState
from headrace.erasure.topic_configs import read_configs
from headrace.kafka.cluster import Cluster
from tests.erasure import eraser_process
from tests.erasure.conftest import WAIT_S, CreateTopic, read, write

CONFIGS = {"segment_ms": "600000", "min_compaction_lag_ms": "3600000"}


def erase(cluster: Cluster, subject: Subject, *topics: str) -> list[TopicProgress]:
    with Eraser(cluster) as eraser:
        request = eraser.request(subject, topics)
        done = eraser.work(request.id, wait_s=WAIT_S)
    assert done.state is ErasureState.COMPLETE
    return list(done.topics)


def values_of(cluster: Cluster, topic: str, key: bytes) -> list[bytes]:
    return [value for each, value in read(cluster, topic) if each == key and value is not None]


def test_values_are_gone_and_other_keys_stay(cluster: Cluster, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=2, **CONFIGS)
    write(cluster, topic, [(f"k{number % 10}", f"value {number}") for number in range(100)])
    (progress,) = erase(cluster, Subject(key="k3"), topic)
    assert values_of(cluster, topic, b"k3") == []
    assert {key for key, value in read(cluster, topic) if value is not None} == {
        f"k{number}".encode() for number in range(10) if number != 3
    }
    assert (progress.state, progress.records_found, progress.tombstones) == (TopicState.COMPLETE, 10, 1)
    assert progress.values_left == 0
    ends = cluster.latest(cluster.partitions(topic))
    assert progress.verified == {str(each.number): (0, end) for each, end in ends.items()}
    assert progress.complete_ms is not None
    assert (progress.files_until_ms or 0) > progress.complete_ms


def test_configs_are_those_of_before(cluster: Cluster, create_topic: CreateTopic) -> None:
    topic = create_topic(**CONFIGS)
    before = read_configs(cluster, topic)
    write(cluster, topic, [("ada", "1"), ("bob", "2")])
    erase(cluster, Subject(key="ada"), topic)
    assert read_configs(cluster, topic) == before


def test_keys_of_change_events_are_found_in_each_form(cluster: Cluster, topic: str) -> None:
    plain, spaced = b'{"id":7}', b'{ "id" : 7 }'
    with_schema = json.dumps({"schema": {"type": "struct"}, "payload": {"id": 7}}).encode()
    write(cluster, topic, [(key, "row") for key in (plain, spaced, with_schema, b'{"id":8}')])
    (progress,) = erase(cluster, Subject(key='{"id": 7}'), topic)
    assert progress.tombstones == 3
    assert [key for key, value in read(cluster, topic) if value is not None] == [b'{"id":8}']


def test_orders_of_the_person_are_erased_and_one_that_changed_hands_stays(
    cluster: Cluster, topic: str
) -> None:
    write(cluster, topic, [("o1", '{"user": 7}'), ("o2", '{"user": 7}'), ("o3", '{"user": 8}')])
    write(cluster, topic, [("o2", '{"user": 8}')])
    (progress,) = erase(cluster, Subject(key="7", matches=(Match.parse("user=7"),)), topic)
    assert progress.tombstones == 1
    assert sorted(each for each in read(cluster, topic) if each[1] is not None) == [
        (b"o2", b'{"user": 8}'),
        (b"o3", b'{"user": 8}'),
    ]


def test_values_before_an_earlier_tombstone_are_removed(cluster: Cluster, create_topic: CreateTopic) -> None:
    topic = create_topic(**CONFIGS)
    write(cluster, topic, [("ada", "1"), ("bob", "2"), ("ada", None)])
    (progress,) = erase(cluster, Subject(key="ada"), topic)
    assert (progress.records_found, progress.tombstones) == (1, 0)
    assert values_of(cluster, topic, b"ada") == []


def test_values_of_aborted_transactions_are_removed(cluster: Cluster, topic: str) -> None:
    producer = Producer(cluster.client_config(**{"transactional.id": topic}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "secret", "ada")
    producer.flush(30)
    producer.abort_transaction(30)
    assert values_of(cluster, topic, b"ada") == [b"secret"]
    erase(cluster, Subject(key="ada"), topic)
    assert values_of(cluster, topic, b"ada") == []


def test_value_that_a_source_writes_again_is_erased_again_and_reported(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, [("ada", "1")])
    has_written = False

    def write_once_more(step: str) -> None:
        nonlocal has_written
        if "closed the segments" in step and not has_written:
            has_written = True
            write(cluster, topic, [("ada", "again")])

    with Eraser(cluster, at_step=write_once_more) as eraser:
        request = eraser.request(Subject(key="ada"), [topic])
        done = eraser.work(request.id, wait_s=WAIT_S)
    assert done.state is ErasureState.COMPLETE
    assert done.topics[0].written_again == 1
    assert "a source still has the person" in done.topics[0].note
    assert values_of(cluster, topic, b"ada") == []


def test_key_of_another_form_is_not_reported_as_if_all_were_well(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, [('{"id":7}', "row")])
    (progress,) = erase(cluster, Subject(key="7"), topic)
    assert progress.records_found == 0
    assert "write KEY as JSON" in progress.note


def test_killed_after_any_step_it_continues_and_restores_the_configs(
    cluster: Cluster, create_topic: CreateTopic, bootstrap: str
) -> None:
    step, was_killed = 0, True
    while was_killed:
        topic = create_topic(**CONFIGS)
        before = read_configs(cluster, topic)
        write(cluster, topic, [("ada", "1"), ("bob", "2"), ("ada", "3")])
        erasure_id, was_killed = eraser_process.run(bootstrap, topic, "ada", step)
        with Eraser(cluster) as eraser:
            done = eraser.work(erasure_id, wait_s=WAIT_S)
        assert done.state is ErasureState.COMPLETE, step
        assert values_of(cluster, topic, b"ada") == [], step
        assert read_configs(cluster, topic) == before, step
        step += 1
    assert step > 5, "there are fewer steps than that"


def test_two_erasures_of_a_topic_restore_its_own_configs(cluster: Cluster, create_topic: CreateTopic) -> None:
    topic = create_topic(**CONFIGS)
    before = read_configs(cluster, topic)
    write(cluster, topic, [("ada", "1"), ("bob", "2"), ("eve", "3")])
    with Eraser(cluster) as eraser:
        first, second = (eraser.request(Subject(key=key), [topic]) for key in ("ada", "bob"))
        # A round each: both have changed the configs of the topic, or are complete already.
        eraser.work(first.id)
        done = [eraser.work(each.id, wait_s=WAIT_S) for each in (second, first)]
    assert [each.state for each in done] == [ErasureState.COMPLETE] * 2
    assert read_configs(cluster, topic) == before
    assert [key for key, value in read(cluster, topic) if value is not None] == [b"eve"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_key_is_erased_from_a_million_records_while_others_are_written(
    cluster: Cluster, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=4, segment_bytes="10000000")
    for _ in range(4):
        write(cluster, topic, [(f"k{number % 50_000}", "x" * 100) for number in range(250_000)])
    is_done = threading.Event()

    def write_others() -> None:
        while not is_done.is_set():
            write(cluster, topic, [(f"other {number}", "y" * 100) for number in range(1_000)])

    others = threading.Thread(target=write_others)
    others.start()
    try:
        (progress,) = erase(cluster, Subject(key="k77"), topic)
    finally:
        is_done.set()
        others.join()
    # Compaction may have removed some before.
    assert progress.records_found > 0
    assert values_of(cluster, topic, b"k77") == []
    assert len({key for key, value in read(cluster, topic) if value is not None}) == 49_999 + 1_000
