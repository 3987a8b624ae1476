from __future__ import annotations

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.cluster import Cluster
from headrace.kafka.position import BadPosition, Position
from tests.views.topics import create_topic

POSITIONS = st.dictionaries(
    st.text(max_size=5), st.dictionaries(st.integers(0, 9), st.integers(0, 2**62), max_size=4), max_size=4
).map(Position)


@given(position=POSITIONS)
def test_token_is_read_back_as_the_same_position(position: Position) -> None:
    assert Position.from_token(position.token()) == position


def test_equal_positions_have_equal_tokens() -> None:
    one = Position({"a": {0: 1, 1: 2}, "b": {0: 3}})
    other = Position({"b": {0: 3}, "a": {1: 2, 0: 1}})
    assert one.token() == other.token()


@pytest.mark.parametrize("token", ["x", "é", "bm90IGpzb24", "W10", "eyJhIjoxfQ", "=" * 9])
def test_text_that_is_no_token_is_rejected(token: str) -> None:
    with pytest.raises(BadPosition, match="is not a position"):
        Position.from_token(token)


def test_position_is_behind_by_what_it_lacks() -> None:
    position = Position({"a": {0: 5, 1: 5}})
    assert position.behind(Position({"a": {0: 5, 1: 4}})) == {}
    assert position.behind(Position({"a": {0: 7, 2: 1}, "b": {0: 3}})) == {"a-0": 2, "a-2": 1, "b-0": 3}


def test_position_includes_what_is_before_it_in_its_topics() -> None:
    position = Position({"a": {0: 5}})
    assert position.includes(Position({"a": {0: 5}, "other": {0: 9}}))
    assert not position.includes(Position({"a": {0: 5, 1: 1}}))


def test_position_after_acknowledged_records_is_the_end_of_their_partitions(bootstrap: str) -> None:
    cluster = Cluster(bootstrap, timeout_s=30)
    create_topic(cluster, "position-of-writes", partitions=2)
    acknowledged = []
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(6):
        producer.produce(
            "position-of-writes",
            b"x",
            partition=number % 2,
            on_delivery=lambda _error, record: acknowledged.append(record),
        )
    producer.flush()
    after = Position.after(acknowledged)
    assert after == Position({"position-of-writes": {0: 3, 1: 3}})
    assert Position.at_end(cluster, ["position-of-writes"]) == after
