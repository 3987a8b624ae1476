"""Groups of the newer protocol (`group.protocol=consumer`) as confluent-kafka and Kafka's Java programs use them."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewPartitions

from headrace.testing.java import JavaTools
from tests.compatibility.brokers import BrokerUnderTest
from tests.compatibility.conftest import CreateTopic
from tests.compatibility.java_programs import (
    CONSOLE_CONSUMER,
    CONSUMER_GROUP_COMMAND,
    VERIFIABLE_CONSUMER,
    events,
    run,
)
from tests.compatibility.topic_contents import PATIENCE_S, write, write_values

GROUP_PATIENCE_S = 2 * PATIENCE_S
"""A client that has to rejoin may wait for a session timeout, and a new topic for the next metadata refresh."""

CLASSIC = {"group.protocol": "classic", "session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
CONSUMER = {"group.protocol": "consumer"}


class Member:
    """A consumer in a group that records what it consumed and which partitions it was assigned and revoked."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        self.messages: list[Any] = []
        self.errors: list[KafkaError] = []
        self.revoked: list[set[int]] = []
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        protocol = CLASSIC if dotted.get("group.protocol") == "classic" else CONSUMER
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **protocol,
                **dotted,
            }
        )
        self.consumer.subscribe([topic], on_revoke=self._on_revoke)

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
def group(admin: AdminClient, name: str) -> str:
    """A group with a short heartbeat interval, so that a rebalance takes less than ten seconds."""
    entries = [
        ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET)
        for config, value in (
            ("consumer.heartbeat.interval.ms", "200"),
            ("consumer.session.timeout.ms", "6000"),
        )
    ]
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(timeout=PATIENCE_S)
    deadline_s = time.monotonic() + PATIENCE_S
    # Apache Kafka's nodes learn of it a moment later.
    while (
        admin.describe_configs([resource])[resource].result()["consumer.heartbeat.interval.ms"].value != "200"
    ):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return name


@pytest.fixture
def join(bootstrap: str, group: str) -> Iterator[Join]:
    """Creates members of the group on the topic of the same name, and closes them at the end."""
    members: list[Member] = []

    def make(**settings: Any) -> Member:
        members.append(Member(bootstrap, group, settings.pop("topic", group), **settings))
        return members[-1]

    yield make
    for member in members:
        member.consumer.close()


def poll_until(members: Sequence[Member], condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + GROUP_PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, (
            f"timed out waiting until {what}: {[(m.partitions, m.errors) for m in members]}"
        )
        for member in members:
            member.poll()


def keep_polling(members: Sequence[Member], stop: threading.Event) -> None:
    while not stop.is_set():
        for member in members:
            member.poll()


def shared(members: Sequence[Member], *counts: int) -> Callable[[], bool]:
    """Whether the members have all partitions, none twice, and each as many as it should."""

    def condition() -> bool:
        owned = [member.partitions for member in members]
        return set().union(*owned) == set(range(sum(counts))) and sorted(map(len, owned)) == [*counts]

    return condition


def write_numbers(bootstrap: str, topic: str, numbers: range, partitions: int) -> None:
    write(bootstrap, topic, ({"value": str(n), "partition": n % partitions} for n in numbers))


def numbers_of(*members: Member) -> list[int]:
    return sorted(int(message.value()) for member in members for message in member.messages)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_every_record_is_consumed_once_while_members_join_and_leave(
    bootstrap: str, create_topic: CreateTopic, group: str, join: Join, assignor: str
) -> None:
    topic = create_topic(partitions=6)
    first = join(group_remote_assignor=assignor)
    poll_until([first], shared([first], 6), "the first has everything")
    members = [first, join(group_remote_assignor=assignor), join(group_remote_assignor=assignor)]
    poll_until(members, shared(members, 2, 2, 2), "each of three has two partitions")

    write_numbers(bootstrap, topic, range(300), 6)
    poll_until(members, lambda: len(numbers_of(*members)) >= 300, "300 records were consumed")
    assert numbers_of(*members) == [*range(300)]
    for member in members:
        assert [each.error for each in member.consumer.commit(asynchronous=False)] == [None, None]

    members.pop().consumer.close()
    for member in members:
        member.messages.clear()
    poll_until(members, shared(members, 3, 3), "the two that are left have all")
    write_numbers(bootstrap, topic, range(300, 400), 6)
    poll_until(members, lambda: len(numbers_of(*members)) >= 100, "the new records were consumed")
    assert numbers_of(*members) == [*range(300, 400)]


def test_member_revokes_only_the_partitions_that_another_gets(create_topic: CreateTopic, join: Join) -> None:
    create_topic(partitions=4)
    first = join()
    poll_until([first], shared([first], 4), "the first has everything")
    second = join()
    poll_until([first, second], shared([first, second], 2, 2), "both have two")

    assert first.revoked == [second.partitions]


def test_static_member_rejoins_with_its_partitions_and_a_duplicate_is_rejected(
    create_topic: CreateTopic, join: Join
) -> None:
    create_topic(partitions=4)
    other, away = join(group_instance_id="other"), join(group_instance_id="away")
    poll_until([other, away], shared([other, away], 2, 2), "both have two")
    before, revoked = away.partitions, [*other.revoked]

    away.consumer.close()
    back = join(group_instance_id="away")
    poll_until([other, back], lambda: bool(back.partitions), "it has rejoined")
    assert (back.partitions, other.revoked) == (before, revoked)

    twin = join(group_instance_id="away")
    poll_until([other, back, twin], lambda: bool(twin.errors), "the duplicate is rejected")
    assert twin.errors[0].code() in (KafkaError._FATAL, KafkaError.UNRELEASED_INSTANCE_ID)


def test_pattern_matches_existing_and_new_topics(
    bootstrap: str, create_topic: CreateTopic, group: str, join: Join
) -> None:
    create_topic(suffix="-early")
    member = join(topic=f"^{group}-.*")

    def topics() -> set[str]:
        return {partition.topic for partition in member.consumer.assignment()}

    poll_until([member], lambda: topics() == {f"{group}-early"}, "the early topic is there")
    create_topic(suffix="-late")
    poll_until([member], lambda: topics() == {f"{group}-early", f"{group}-late"}, "the late one, too")


def test_added_partitions_are_assigned(admin: AdminClient, create_topic: CreateTopic, join: Join) -> None:
    topic = create_topic(partitions=1)
    members = [join(), join()]
    poll_until(members, shared(members, 0, 1), "one has the only partition")
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(timeout=PATIENCE_S)
    poll_until(members, shared(members, 2, 2), "both have two")


def test_partitions_of_a_killed_member_are_reassigned_after_its_session_timeout(
    bootstrap: str, create_topic: CreateTopic, group: str, join: Join
) -> None:
    create_topic(partitions=2)
    program = (
        "import sys\n"
        "from confluent_kafka import Consumer\n"
        "bootstrap, group = sys.argv[1:]\n"
        "consumer = Consumer({'bootstrap.servers': bootstrap, 'group.id': group, 'group.protocol': 'consumer'})\n"
        "consumer.subscribe([group], on_assign=lambda c, p: print(len(p), flush=True))\n"
        "while True: consumer.poll(1)\n"
    )
    command = [sys.executable, "-c", program, bootstrap, group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline().strip() == "2"
        doomed.kill()

    survivor = join()
    poll_until([survivor], shared([survivor], 2), "the survivor has everything")


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_group_migrates_to_the_newer_protocol_and_back_member_by_member(
    broker: BrokerUnderTest, create_topic: CreateTopic, join: Join, strategy: str
) -> None:
    if (broker.kind, strategy) == ("kafka", "cooperative-sticky"):
        pytest.skip("Kafka moves no group whose members have data of their own, as librdkafka's have there")
    bootstrap = broker.bootstrap
    topic = create_topic(partitions=4)

    def classic() -> Member:
        return join(group_protocol="classic", partition_assignment_strategy=strategy)

    old = [classic(), classic()]
    poll_until(old, shared(old, 2, 2), "two classic members have two each")
    write_numbers(bootstrap, topic, range(40), 4)
    poll_until(old, lambda: len(numbers_of(*old)) >= 40, "the first records were consumed")
    for member in old:
        member.consumer.commit(asynchronous=False)
        member.messages.clear()

    mixed = [*old, join()]
    poll_until(mixed, shared(mixed, 1, 1, 2), "a newer member has its share")
    old[0].consumer.close()
    newer = [*mixed[1:], join()]
    poll_until(newer, shared(newer, 1, 1, 2), "two newer members and an old one share")
    write_numbers(bootstrap, topic, range(40, 80), 4)
    poll_until(newer, lambda: {*range(40, 80)} <= {*numbers_of(*newer)}, "no partition is missing")
    for member in newer:
        member.consumer.commit(asynchronous=False)
        member.messages.clear()

    for member in newer[1:]:
        member.consumer.close()
    back = [old[1], classic()]
    poll_until(back, shared(back, 2, 2), "two classic members have two each again")
    write_numbers(bootstrap, topic, range(80, 120), 4)
    poll_until(back, lambda: {*range(80, 120)} <= {*numbers_of(*back)}, "no partition is missing")
    assert min(numbers_of(*back)) >= 80


def test_only_a_member_commits_offsets_in_a_transaction(
    bootstrap: str, create_topic: CreateTopic, group: str, join: Join
) -> None:
    topic, copy = create_topic(partitions=1), create_topic(suffix="-copy")
    write_numbers(bootstrap, topic, range(10), 1)
    one = join()
    poll_until([one], lambda: len(one.messages) >= 10, "all is read")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
    producer.init_transactions(PATIENCE_S)
    positions = one.consumer.position(one.consumer.assignment())

    producer.begin_transaction()
    producer.produce(copy, b"copied")
    producer.send_offsets_to_transaction(positions, one.consumer.consumer_group_metadata(), PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)
    [committed] = one.consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    assert committed.offset == 10

    metadata = one.consumer.consumer_group_metadata()
    one.consumer.close()
    producer.begin_transaction()
    with pytest.raises(KafkaException) as rejected:
        producer.send_offsets_to_transaction(positions, metadata, PATIENCE_S)
    assert rejected.value.args[0].txn_requires_abort()
    producer.abort_transaction(PATIENCE_S)


def test_a_live_group_is_described_and_cannot_be_deleted(
    tools_4_3: JavaTools,
    admin: AdminClient,
    bootstrap: str,
    create_topic: CreateTopic,
    group: str,
    join: Join,
) -> None:
    topic = create_topic(partitions=4)
    members = [join(client_id=f"client-{n}") for n in range(2)]
    poll_until(members, shared(members, 2, 2), "both have two")
    write_numbers(bootstrap, topic, range(40), 4)
    poll_until(members, lambda: len(numbers_of(*members)) >= 40, "all is read")
    for member in members:
        member.consumer.commit(asynchronous=False)

    stop = threading.Event()
    poller = threading.Thread(target=keep_polling, args=(members, stop))
    poller.start()
    try:
        asked = ("--bootstrap-server", bootstrap, "--group", group, "--describe")
        offsets = run(tools_4_3, CONSUMER_GROUP_COMMAND, *asked)
        state = run(tools_4_3, CONSUMER_GROUP_COMMAND, *asked, "--state", "--verbose")
        listed = run(
            tools_4_3,
            *(CONSUMER_GROUP_COMMAND, "--bootstrap-server", bootstrap, "--list", "--type", "consumer"),
        )
    finally:
        stop.set()
        poller.join()

    assert len(re.findall(rf"{group}\s+{topic}\s+\d\s+10\s+10\s+0\s", offsets)) == 4
    assert re.search(rf"{group}\s.*\suniform\s.*Stable\s.*\s2\s", state)
    assert group in listed
    with pytest.raises(KafkaException) as rejected:
        admin.delete_consumer_groups([group])[group].result(timeout=PATIENCE_S)
    assert rejected.value.args[0].code() == KafkaError.NON_EMPTY_GROUP


def test_javas_verifiable_consumers_resume_at_the_committed_offsets(
    tools_4_3: JavaTools, bootstrap: str, topic: str, group: str
) -> None:
    write_values(bootstrap, topic, (str(number).encode() for number in range(100)))

    def consume(count: int) -> list[int]:
        consumed = events(
            run(
                tools_4_3,
                *(VERIFIABLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic),
                *("--group-id", group, "--group-protocol", "consumer", "--reset-policy", "earliest"),
                *("--max-messages", str(count), "--verbose"),
            )
        )
        assert all(event["success"] for event in consumed if event["name"] == "offsets_committed")
        return [int(event["value"]) for event in consumed if event["name"] == "record_data"]

    assert consume(60) == [*range(60)]
    assert consume(40) == [*range(60, 100)]


def test_javas_console_consumer_shares_with_librdkafka(
    tools_4_3: JavaTools, bootstrap: str, create_topic: CreateTopic, group: str, join: Join
) -> None:
    topic = create_topic(partitions=2)
    ours = join()
    poll_until([ours], shared([ours], 2), "librdkafka has both")
    console = tools_4_3.start(
        *(CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--command-property", "group.protocol=consumer", "--from-beginning", "--max-messages", "50"),
        stderr=subprocess.DEVNULL,
    )
    try:
        poll_until([ours], lambda: len(ours.partitions) == 1, "Java has taken one")
        write_numbers(bootstrap, topic, range(100), 2)
        poll_until([ours], lambda: len(ours.messages) >= 50, "librdkafka has its half")
        output, _ = console.communicate(timeout=GROUP_PATIENCE_S)
    finally:
        console.kill()
        console.wait()
    theirs = {int(line) for line in output.split() if line.isdigit()}
    assert theirs | {*numbers_of(ours)} == {*range(100)}
