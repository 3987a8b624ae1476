"""Groups and offsets across the death of their broker, with librdkafka as the client."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.testing.apache_kafka import kafka_tools_4_3
from headrace.testing.requirements import require_java
from headrace.testing.wire import Wire
from tests.broker.group_requests import GroupMember, commit, committed, heartbeat, stable_member
from tests.broker.requests import create_topic
from tests.compatibility.java_programs import DUMP_LOG_SEGMENTS, run
from tests.faults.broker_process import BrokerProcess

PATIENCE_S = 60
TOPIC = "events"
KILLS = 5


def until(condition: Callable[[], Any], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited in vain until {what}"


def consumer(broker: BrokerProcess, group: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def made_topic(broker: BrokerProcess, partitions: int = 1) -> None:
    with Wire(broker.bootstrap) as wire:
        create_topic(wire, TOPIC, partitions=partitions)


def test_acknowledged_commit_survives_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        made_topic(broker)
        acknowledged = tried = 0
        for round_number in range(KILLS):
            writer = consumer(broker, "g")
            for _ in range(20 + 7 * round_number):
                tried += 1
                writer.commit(offsets=[TopicPartition(TOPIC, 0, tried)], asynchronous=False)
                acknowledged = tried
            # One more is under way while the broker dies.
            tried += 1
            writer.commit(offsets=[TopicPartition(TOPIC, 0, tried)], asynchronous=True)
            writer.poll(0)
            broker.kill()
            broker.start()
            writer.close()
            reader = consumer(broker, "g")
            [found] = reader.committed([TopicPartition(TOPIC, 0)], timeout=PATIENCE_S)
            reader.close()
            assert acknowledged <= found.offset <= tried
            tried = found.offset


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_survive_a_restart_without_a_rebalance(tmp_path: Path, strategy: str) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        made_topic(broker, partitions=2)
        events: list[str] = []
        members = [consumer(broker, "g", partition_assignment_strategy=strategy) for _ in range(2)]
        for member in members:
            member.subscribe(
                [TOPIC],
                on_assign=lambda *_: events.append("assigned"),
                on_revoke=lambda *_: events.append("revoked"),
            )

        def both_have_one_and_hear_no_more() -> bool:
            heard = len(events)
            for _ in range(10):
                for member in members:
                    member.poll(0.05)
            return heard == len(events) and all(len(member.assignment()) == 1 for member in members)

        # Cooperative members get the last round, which assigns nothing more, a moment later.
        until(both_have_one_and_hear_no_more, "both members have a partition")
        before = ([member.assignment() for member in members], [*events])
        broker.kill()
        broker.start()
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for partition in range(2):
            producer.produce(TOPIC, b"after", partition=partition)
        producer.flush(PATIENCE_S)
        for member in members:
            until(lambda m=member: (r := m.poll(0.2)) and r.value() == b"after", "it reads on")  # type: ignore[misc]
        for member in members:
            until(lambda m=member: _commits(m), "it commits on")  # type: ignore[misc]
        assert ([member.assignment() for member in members], events) == before
        for member in members:
            member.close()


def _commits(member: Consumer) -> bool:
    try:
        member.commit(asynchronous=False)
    except KafkaException as error:
        if not error.args[0].retriable():
            raise
        return False
    return True


def test_static_member_keeps_its_assignment_across_kill_of_the_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        with Wire(broker.bootstrap) as wire:
            member = stable_member(wire, "g", group_instance_id="static", session_timeout_ms=60_000)
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            until(lambda: _loaded(wire, member), "the groups are loaded")
            assert heartbeat(wire, member, group_instance_id="static") == 0


def _loaded(wire: Wire, member: GroupMember) -> bool:
    (group,) = wire.request(DescribeGroupsRequest(groups=(member.group,))).groups
    return bool(group.error_code == 0)


def test_offsets_of_an_unused_group_expire(tmp_path: Path) -> None:
    settings = {"offsets_retention_ms": 500, "housekeeping_interval_ms": 100}
    with BrokerProcess(tmp_path / "data", **settings) as broker:
        made_topic(broker)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        writer = consumer(broker, "g")
        writer.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
        wanted = [TopicPartition(TOPIC, 0)]
        until(
            lambda: writer.committed(wanted, timeout=PATIENCE_S)[0].offset == OFFSET_INVALID,
            "the offset is deleted",
        )
        until(
            lambda: not admin.list_consumer_groups().result(timeout=PATIENCE_S).valid,
            "the group is deleted",
        )
        writer.close()


def test_kafka_tool_reads_the_log_of_offsets(tmp_path: Path) -> None:
    require_java()
    with BrokerProcess(tmp_path / "data") as broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, TOPIC)
            member = stable_member(wire, "live", TOPIC, group_instance_id="static")
            assert commit(wire, "live", TOPIC, 5, member=member, metadata="note", leader_epoch=0) == 0
            assert commit(wire, "old-client", TOPIC, 6, version=2, retention_time_ms=1_000_000) == 0
            assert committed(wire, "live", TOPIC) == 5
        broker.stop()
        segment = tmp_path / "data" / f"{OFFSETS_TOPIC}-0" / f"{0:020}.log"
        output = run(kafka_tools_4_3(), DUMP_LOG_SEGMENTS, "--offsets-decoder", "--files", str(segment))
    assert '"group":"live","topic":"events","partition":0' in output, output
    assert '"metadata":"note"' in output
    assert '"groupInstanceId":"static"' in output
    assert '"expireTimestamp"' in output
    assert "isvalid: false" not in output.lower()
