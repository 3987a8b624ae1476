"""Groups of the newer protocol across the death of their broker."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, Producer

from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.apache_kafka import kafka_tools_4_3
from headrace.testing.requirements import require_java
from headrace.testing.wire import Wire
from tests.broker.consumer_group_requests import WireMember, describe, member, stabilize
from tests.broker.group_requests import GroupMember, commit, heartbeat, join, sync_request
from tests.broker.groups.test_survival import PATIENCE_S, TOPIC, _commits, made_topic, until
from tests.broker.requests import create_topic
from tests.compatibility.java_programs import DUMP_LOG_SEGMENTS, run
from tests.faults.broker_process import BrokerProcess


def reconnected(wire: Wire, group: str, *members: WireMember) -> None:
    """The members continue over another connection, as soon as the groups are loaded."""
    until(lambda: describe(wire, group).error_code == 0, "the groups are loaded")
    for one in members:
        one.wire = wire


def test_members_partitions_and_epochs_survive_kill_in_the_middle_of_a_rebalance(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=4)
            first = member(wire, "g", "first", TOPIC)
            had = first.reported()
            second = member(wire, "g", "second", TOPIC, instance_id="static")
            first.beat(topic_partitions=had)
            before = describe(wire, "g")
            assert before.group_state == "Reconciling"
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            reconnected(wire, "g", first, second)
            assert describe(wire, "g") == before
            # A partition that was not revoked before the kill is not assigned to another member after it.
            assert second.beat().assignment is None
            first.beat()
            second.beat()
            assert (first.partitions, second.partitions) == ([0, 1], [2, 3])
            stabilize(first, second)
            assert describe(wire, "g").group_epoch == before.group_epoch


def test_group_of_both_protocols_survives_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=2)
            newer = member(wire, "g", "m", TOPIC)
            classic: GroupMember = join(wire, "g", TOPIC, session_timeout_ms=60_000)
            wire.request(sync_request(classic, assignments=()))
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            reconnected(wire, "g", newer)
            assert heartbeat(wire, classic) is ErrorCode.NONE
            newer.beat()
            newer.beat()
            assert newer.partitions == [0]
            assert heartbeat(wire, classic) is ErrorCode.REBALANCE_IN_PROGRESS
            assert commit(wire, "g", TOPIC, 1, member=classic) is ErrorCode.NONE


def test_librdkafka_members_survive_a_restart_without_a_rebalance(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        made_topic(broker, partitions=2)
        events: list[str] = []
        settings = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        members = [Consumer({**settings, "client.id": f"c{number}"}) for number in range(2)]
        for one in members:
            one.subscribe(
                [TOPIC],
                on_assign=lambda *_: events.append("assigned"),
                on_revoke=lambda *_: events.append("revoked"),
            )

        def both_have_one() -> bool:
            for one in members:
                one.poll(0.05)
            return all(len(one.assignment()) == 1 for one in members)

        until(both_have_one, "both members have a partition")
        before = ([one.assignment() for one in members], [*events])
        broker.kill()
        broker.start()
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for partition in range(2):
            producer.produce(TOPIC, b"after", partition=partition)
        producer.flush(PATIENCE_S)
        for one in members:
            until(lambda m=one: (r := m.poll(0.2)) and r.value() == b"after", "it reads on")  # type: ignore[misc]
            until(lambda m=one: _commits(m), "it commits on")  # type: ignore[misc]
        assert ([one.assignment() for one in members], events) == before
        for one in members:
            one.close()


def test_kafka_tool_reads_the_records_of_a_group(tmp_path: Path) -> None:
    require_java()
    with BrokerProcess(tmp_path / "data") as broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=2)
            one = WireMember(wire=wire, group="g", member_id="m", topics=(TOPIC,), instance_id="static")
            one.beat(subscribed_topic_regex="e.*", server_assignor="range")
            join(wire, "g", TOPIC)
        broker.stop()
        segment = tmp_path / "data" / f"{OFFSETS_TOPIC}-0" / f"{0:020}.log"
        output = run(kafka_tools_4_3(), DUMP_LOG_SEGMENTS, "--offsets-decoder", "--files", str(segment))
    assert '"subscribedTopicRegex":"e.*"' in output, output
    assert '"instanceId":"static"' in output
    assert '"assignmentEpochs":[1,1]' in output
    assert '"regularExpression":"e.*"' in output
    assert '"supportedProtocols":[{"name":"range"' in output
    assert "isvalid: false" not in output.lower()
    assert "could not be decoded" not in output.lower()
