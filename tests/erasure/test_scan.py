"""Reading whole topics: every record of the person is found, and nobody else's."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from headrace.erasure import BadErasure, Match, Subject
from headrace.erasure import scan as scan_module
from headrace.erasure.scan import KeyAt, TopicScanner
from headrace.kafka.cluster import Cluster
from tests.erasure.conftest import CreateTopic, write

ADA = Subject(key="ada").matcher()


@pytest.fixture
def scanner(cluster: Cluster) -> TopicScanner:
    return TopicScanner(cluster)


def test_keys_are_found_in_every_partition_with_their_offsets(
    scanner: TopicScanner, cluster: Cluster, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=3)
    for partition in range(3):
        write(cluster, topic, [("ada", "1"), ("bob", "2"), ("ada", "3")], partition=partition)
    write(cluster, topic, [("ada", None)], partition=2)
    found = scanner.committed(topic, ADA)
    assert found.values == 6
    assert found.live == {KeyAt(0, b"ada"), KeyAt(1, b"ada")}
    assert found.dead == {KeyAt(2, b"ada")}
    assert found.newest == {0: 2, 1: 2, 2: 2}
    assert found.ranges == {0: (0, 3), 1: (0, 3), 2: (0, 4)}


def test_key_is_live_by_its_last_value_that_names_the_person(
    scanner: TopicScanner, cluster: Cluster, topic: str
) -> None:
    write(cluster, topic, [("o1", '{"user": 7}'), ("o2", '{"user": 7}'), ("o3", '{"user": 8}')])
    write(cluster, topic, [("o2", '{"user": 8}'), ("o4", "no JSON")])
    found = scanner.committed(topic, Subject(key="7", matches=(Match.parse("user=7"),)).matcher())
    assert found.values == 2
    # Order o2 belongs to another person now: a tombstone would delete that person's data.
    assert found.live == {KeyAt(0, b"o1")}
    assert found.dead == set()
    assert found.unreadable == 1


def test_aborted_records_are_stored_but_do_not_decide(
    scanner: TopicScanner, cluster: Cluster, topic: str
) -> None:
    producer = Producer(cluster.client_config(**{"transactional.id": topic}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "secret", "ada")
    producer.flush(30)
    producer.abort_transaction(30)
    assert scanner.committed(topic, ADA).values == 0
    assert scanner.stored(topic, ADA).values == 1


def test_record_that_is_there_is_not_gone(scanner: TopicScanner, cluster: Cluster, topic: str) -> None:
    write(cluster, topic, [("ada", "1"), ("bob", "2")])
    assert not scanner.is_gone(topic, {0: 0})
    assert scanner.is_gone(topic, {})


def test_condition_that_fits_everybody_is_rejected(
    scanner: TopicScanner, cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "KEYS_MAX", 10)
    write(cluster, topic, [(f"o{number}", '{"country": "NO"}') for number in range(20)])
    with pytest.raises(BadErasure, match="more than 10 keys"):
        scanner.committed(topic, Subject(key="x", matches=(Match.parse("country=NO"),)).matcher())


def test_empty_topic_is_read(scanner: TopicScanner, topic: str) -> None:
    assert scanner.stored(topic, ADA).ranges == {0: (0, 0)}
