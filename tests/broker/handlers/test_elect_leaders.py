"""ElectLeaders over the wire; the expected responses are those of Apache Kafka."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.testing.wire import Wire

UNCLEAN = 1


def elect(wire: Wire, topic: str, *partitions: int, version: int = 2, election_type: int = 0) -> list[int]:
    wanted = (TopicPartitions(topic=topic, partitions=partitions),)
    request = ElectLeadersRequest(topic_partitions=wanted, election_type=election_type)
    (result,) = wire.request(request, version=version).replica_election_results
    assert result.topic == topic
    assert [one.partition_id for one in result.partition_result] == [*partitions]
    return [one.error_code for one in result.partition_result]


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_needed_with_a_leader(any_wire: Wire, any_topic: str, version: int) -> None:
    codes = elect(any_wire, any_topic, 0, 1, 2, version=version)
    assert codes == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert elect(any_wire, "no-such-topic", 0, version=version) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_unclean_election_is_no_different(any_wire: Wire, any_topic: str) -> None:
    assert elect(any_wire, any_topic, 0, election_type=UNCLEAN) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_election_of_all_names_no_partition_that_kept_its_leader(any_wire: Wire, any_topic: str) -> None:
    response = any_wire.request(ElectLeadersRequest(topic_partitions=None))
    assert response.error_code == 0
    assert any_topic in {result.topic for result in response.replica_election_results}
    assert [result for result in response.replica_election_results if result.partition_result] == []


def test_unknown_kind_of_election_is_rejected(any_wire: Wire, any_topic: str) -> None:
    assert elect(any_wire, any_topic, 0, election_type=5) == [ErrorCode.INVALID_REQUEST]
