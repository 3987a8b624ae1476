"""confluent-kafka (librdkafka): consumer groups of the classic protocol."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compatibility.conftest import CreateTopic
from tests.compatibility.topic_contents import PATIENCE_S, write

SESSION_TIMEOUT_MS = 6000
"""The shortest that a broker with Kafka's defaults accepts."""

STRATEGIES = ("range", "roundrobin", "cooperative-sticky")


class Member:
    """A consumer in a group that records what it consumed and its rebalances."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 200,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.messages: list[Any] = []
        self.errors: list[KafkaError] = []
        self.revoked: list[set[int]] = []
        self.assignments = 0
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked.append({partition.partition for partition in partitions})

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def poll(self) -> None:
        for message in self.consumer.consume(1000, timeout=0.05):
            error = message.error()
            if error is None:
                self.messages.append(message)
            else:
                self.errors.append(error)


Join = Callable[..., Member]


@pytest.fixture
def join(bootstrap: str, name: str) -> Iterator[Join]:
    """Creates members of the group called `name` on the topic called `name`, and closes them at the end."""
    members: list[Member] = []

    def make(**settings: Any) -> Member:
        members.append(Member(bootstrap, name, name, **settings))
        return members[-1]

    yield make
    for member in members:
        member.consumer.close()


def poll_until(members: Sequence[Member], condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, (
            f"timed out waiting until {what}: {[m.partitions for m in members]}"
        )
        for member in members:
            member.poll()


def shared_evenly(members: Sequence[Member], partitions: int) -> Callable[[], bool]:
    def condition() -> bool:
        owned = [member.partitions for member in members]
        return (
            set().union(*owned) == set(range(partitions))
            and sum(map(len, owned)) == partitions
            and all(owned)
        )

    return condition


def write_numbers(bootstrap: str, topic: str, numbers: range, partitions: int) -> None:
    write(bootstrap, topic, ({"value": str(n), "partition": n % partitions} for n in numbers))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_share_the_partitions_and_read_every_record_once(
    bootstrap: str, create_topic: CreateTopic, join: Join, strategy: str
) -> None:
    topic = create_topic(partitions=6)
    members = [join(partition_assignment_strategy=strategy) for _ in range(3)]
    poll_until(members, shared_evenly(members, 6), "three members have all six partitions")
    assert [len(member.partitions) for member in members] == [2, 2, 2]

    write_numbers(bootstrap, topic, range(600), 6)
    poll_until(members, lambda: sum(len(m.messages) for m in members) >= 600, "600 records were consumed")

    for member in members:
        assert {m.partition() for m in member.messages} == member.partitions
    assert sorted(int(m.value()) for member in members for m in member.messages) == list(range(600))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_of_a_leaving_member_are_read_on_from_its_committed_offsets(
    bootstrap: str, create_topic: CreateTopic, join: Join, strategy: str
) -> None:
    topic = create_topic(partitions=4)
    staying, leaving = (join(partition_assignment_strategy=strategy) for _ in range(2))
    both = [staying, leaving]
    poll_until(both, shared_evenly(both, 4), "both members have partitions")
    write_numbers(bootstrap, topic, range(100), 4)
    poll_until(both, lambda: sum(len(member.messages) for member in both) >= 100, "all is read")
    for member in both:
        member.consumer.commit(asynchronous=False)
    staying.messages.clear()

    leaving.consumer.close()
    poll_until([staying], lambda: staying.partitions == {0, 1, 2, 3}, "the one left has everything")
    write_numbers(bootstrap, topic, range(100, 200), 4)
    poll_until([staying], lambda: len(staying.messages) >= 100, "the new records were consumed")

    assert sorted(int(m.value()) for m in staying.messages) == list(range(100, 200))


def test_cooperative_member_keeps_consuming_the_partitions_that_it_keeps(
    create_topic: CreateTopic, join: Join
) -> None:
    create_topic(partitions=4)
    first = join(partition_assignment_strategy="cooperative-sticky")
    poll_until([first], lambda: len(first.partitions) == 4, "the first has everything")

    second = join(partition_assignment_strategy="cooperative-sticky")
    poll_until([first, second], shared_evenly([first, second], 4), "both have partitions")

    assert first.revoked == [second.partitions]
    assert len(second.partitions) == 2


def test_eager_member_revokes_all_partitions_before_a_new_assignment(
    create_topic: CreateTopic, join: Join
) -> None:
    create_topic(partitions=4)
    first = join(partition_assignment_strategy="range")
    poll_until([first], lambda: len(first.partitions) == 4, "the first has everything")

    second = join(partition_assignment_strategy="range")
    poll_until([first, second], shared_evenly([first, second], 4), "both have partitions")

    assert first.revoked == [{0, 1, 2, 3}]


def test_static_member_rejoins_with_its_partitions_without_a_rebalance(
    create_topic: CreateTopic, join: Join
) -> None:
    create_topic(partitions=4)
    other = join(group_instance_id="other")
    away = join(group_instance_id="away")
    poll_until([other, away], shared_evenly([other, away], 4), "both have partitions")
    partitions_before = away.partitions
    rebalances_before = (other.assignments, len(other.revoked))

    away.consumer.close()  # a static member does not leave the group
    back = join(group_instance_id="away")
    poll_until([other, back], lambda: bool(back.partitions), "it has rejoined")

    assert back.partitions == partitions_before
    assert (other.assignments, len(other.revoked)) == rebalances_before


def test_second_member_with_the_same_static_id_fences_the_first(
    create_topic: CreateTopic, join: Join
) -> None:
    create_topic(partitions=2)
    first = join(group_instance_id="twin")
    poll_until([first], lambda: len(first.partitions) == 2, "the first has everything")

    second = join(group_instance_id="twin")
    poll_until(
        [first, second], lambda: bool(first.errors) and len(second.partitions) == 2, "the second took over"
    )

    assert first.errors[0].code() == KafkaError._FATAL
    assert "Static consumer fenced" in first.errors[0].str()


def test_partitions_of_a_dead_member_are_reassigned_after_its_session_timeout(
    bootstrap: str, create_topic: CreateTopic, join: Join
) -> None:
    topic = create_topic(partitions=2)
    program = (
        "import sys\n"
        "from confluent_kafka import Consumer\n"
        "bootstrap, group = sys.argv[1:]\n"
        "config = {'bootstrap.servers': bootstrap, 'group.id': group, 'session.timeout.ms': 6000}\n"
        "consumer = Consumer(config)\n"
        "consumer.subscribe([group], on_assign=lambda c, p: print(len(p), flush=True))\n"
        "while True: consumer.poll(1)\n"
    )
    command = [sys.executable, "-c", program, bootstrap, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline().strip() == "2"
        doomed.kill()

    survivor = join()
    poll_until([survivor], lambda: survivor.partitions == {0, 1}, "the survivor has everything")


def test_committed_offsets_and_their_metadata_are_kept_for_the_group(
    bootstrap: str, topic: str, name: str
) -> None:
    write_numbers(bootstrap, topic, range(20), 1)
    config = {"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False}
    writer = Consumer(config)
    committed = writer.commit(
        offsets=[TopicPartition(topic, 0, 7, metadata="up to «seven»")], asynchronous=False
    )
    assert [(c.offset, c.error) for c in committed] == [(7, None)]
    writer.close()

    reader = Consumer(config)
    try:
        [found] = reader.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
        assert (found.offset, found.metadata, found.error) == (7, "up to «seven»", None)
        reader.subscribe([topic])
        message: Any = reader.poll(PATIENCE_S)
        assert message is not None
        assert message.offset() == 7
    finally:
        reader.close()


def test_groups_are_independent(bootstrap: str, topic: str, name: str) -> None:
    write_numbers(bootstrap, topic, range(50), 1)
    for group in (f"{name}-a", f"{name}-b"):
        member = Member(bootstrap, group, topic)
        try:
            poll_until([member], lambda m=member: len(m.messages) >= 50, f"{group} has everything")  # type: ignore[misc]
            assert [int(m.value()) for m in member.messages] == list(range(50))
            member.consumer.commit(asynchronous=False)
        finally:
            member.consumer.close()


def test_subscription_by_pattern_matches_topics_that_are_created_later(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    create_topic(suffix="-early")
    member = Member(bootstrap, name, f"^{name}-.*", topic_metadata_refresh_interval_ms=300)
    try:
        poll_until([member], lambda: len(member.consumer.assignment()) == 1, "the early topic is there")
        create_topic(suffix="-late")
        poll_until([member], lambda: len(member.consumer.assignment()) == 2, "the late one is, too")
        assert {p.topic for p in member.consumer.assignment()} == {f"{name}-early", f"{name}-late"}
    finally:
        member.consumer.close()


def test_a_live_group_is_described_with_its_members_and_cannot_be_deleted(
    admin: AdminClient, create_topic: CreateTopic, join: Join, name: str
) -> None:
    topic = create_topic(partitions=4)
    members = [join(client_id=f"client-{n}", partition_assignment_strategy="range") for n in range(2)]
    poll_until(members, shared_evenly(members, 4), "both have partitions")

    described = admin.describe_consumer_groups([name])[name].result(timeout=PATIENCE_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    assert {member.client_id for member in described.members} == {"client-0", "client-1"}
    assigned = [tp for member in described.members for tp in member.assignment.topic_partitions]
    assert sorted((tp.topic, tp.partition) for tp in assigned) == [(topic, n) for n in range(4)]

    with pytest.raises(KafkaException) as rejected:
        admin.delete_consumer_groups([name])[name].result(timeout=PATIENCE_S)
    assert rejected.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
