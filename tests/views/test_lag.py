"""How far a view is behind its topics."""

from __future__ import annotations

import uuid
from pathlib import Path

from confluent_kafka import Producer

from headrace.kafka.cluster import Cluster
from headrace.kafka.position import Position
from headrace.views.catalog import Views
from headrace.views.definition import Definition
from headrace.views.lag import lag_of, position_of
from tests.views.checkpoints import commit
from tests.views.topics import create_topic


def test_lag_has_records_and_the_time_of_the_first_unread_one(tmp_path: Path, bootstrap: str) -> None:
    topic = f"lag-{uuid.uuid4().hex[:8]}"
    cluster = Cluster(bootstrap, timeout_s=30)
    create_topic(cluster, topic, partitions=3)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce(topic, str(number), partition=0, timestamp=1_000_000 + number)
    producer.produce(topic, "x", partition=1, timestamp=2_000_000)
    assert producer.flush(60) == 0
    folder = Views(tmp_path).create(Definition(name="users", topics=(topic,), key=("id",)))
    found = [(each.partition, each.records, each.waiting_since_ms) for each in lag_of(folder, 1, cluster)]
    assert found == [(0, 5, 1_000_000), (1, 1, 2_000_000), (2, 0, None)]
    commit("users", 1, tmp_path, f'{{"{topic}":{{"0":3,"1":1,"2":0}}}}')
    found = [(each.partition, each.records, each.waiting_since_ms) for each in lag_of(folder, 1, cluster)]
    assert found == [(0, 2, 1_000_003), (1, 0, None), (2, 0, None)]
    assert position_of(folder, 1) == Position({topic: {0: 3, 1: 1, 2: 0}})


def test_records_that_were_deleted_do_not_count(tmp_path: Path, bootstrap: str) -> None:
    topic = f"lag-{uuid.uuid4().hex[:8]}"
    cluster = Cluster(bootstrap, timeout_s=30)
    create_topic(cluster, topic, partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce(topic, str(number))
    assert producer.flush(60) == 0
    cluster.delete_records({cluster.partitions(topic)[0]: 4})
    folder = Views(tmp_path).create(Definition(name="users", topics=(topic,), key=("id",)))
    (found,) = lag_of(folder, 1, cluster)
    assert (found.position, found.end, found.records) == (4, 5, 1)
