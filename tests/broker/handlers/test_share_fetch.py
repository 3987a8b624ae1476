"""ShareFetch over the wire: sessions, locks, limits, and the waiting for records."""

from __future__ import annotations

import uuid

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import share_fetch
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import batch, create_topic, delete_topic, new_name, produce, records_of
from tests.broker.share_requests import (
    ACCEPT,
    RELEASE,
    WAIT_MS,
    ShareMember,
    group_offset,
    heartbeat,
    set_group_configs,
)

TEN = [str(number).encode() for number in range(10)]


def second(wire: Wire, connect: Connect) -> Wire:
    """Another connection to the same broker."""
    host, port = wire.socket.getpeername()
    return connect(f"{host}:{port}")


@pytest.fixture
def name() -> str:
    return new_name()


@pytest.fixture
def topic_id(wire: Wire, name: str) -> uuid.UUID:
    return create_topic(wire, name)


@pytest.fixture
def group(wire: Wire) -> str:
    """A group that starts at the first record."""
    made = new_name("g")
    assert set_group_configs(wire, made, share_auto_offset_reset="earliest") is ErrorCode.NONE
    return made


@pytest.fixture
def member(wire: Wire, group: str, topic_id: uuid.UUID) -> ShareMember:
    return ShareMember(wire, group, topic_id)


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_delivered_locked_with_their_delivery_count(
    wire: Wire, name: str, topic_id: uuid.UUID, group: str, version: int
) -> None:
    produce(wire, name, batch(*TEN))
    member = ShareMember(wire, group, topic_id, version=version)
    response = member.fetch_all()
    assert response.acquisition_lock_timeout_ms == 30_000
    part = member.take(response)
    assert member.held == [(0, 9, 1)]
    assert [record.value for record in records_of(part.records)] == TEN


def test_every_member_gets_other_records(
    wire: Wire, name: str, topic_id: uuid.UUID, group: str, connect: Connect
) -> None:
    for _ in range(4):
        produce(wire, name, batch(*TEN))
    members = [ShareMember(wire, group, topic_id) for _ in range(4)]
    delivered = [member.offsets(max_records=7) for member in members]
    assert sorted(offset for offsets in delivered for offset in offsets) == [*range(28)]


def test_limit_of_records_is_exact_in_record_limit_mode_and_rounded_up_to_batches_otherwise(
    wire: Wire, name: str, topic_id: uuid.UUID, group: str
) -> None:
    produce(wire, name, batch(*(b"x" for _ in range(300))))
    strict, eager = ShareMember(wire, group, topic_id), ShareMember(wire, group, topic_id)
    assert strict.offsets(max_records=110, share_acquire_mode=1) == [*range(110)]
    assert eager.offsets(max_records=110) == [*range(110, 300)]


def test_other_group_gets_all_records_too(wire: Wire, name: str, topic_id: uuid.UUID) -> None:
    produce(wire, name, batch(*TEN))
    for group in (new_name("g"), new_name("g")):
        set_group_configs(wire, group, share_auto_offset_reset="earliest")
        assert ShareMember(wire, group, topic_id).offsets() == [*range(10)]


def test_group_starts_at_the_end_by_default(wire: Wire, name: str, topic_id: uuid.UUID) -> None:
    produce(wire, name, batch(*TEN))
    group = new_name("g")
    heartbeat(wire, group, "m", 0, name)
    produce(wire, name, batch(b"after the heartbeat, before the fetch"))
    assert ShareMember(wire, group, topic_id).offsets() == [10]


def test_group_starts_at_an_age_with_by_duration(wire: Wire, name: str, topic_id: uuid.UUID) -> None:
    produce(wire, name, batch(*TEN))  # the test's records are years old
    young, old = new_name("g"), new_name("g")
    set_group_configs(wire, young, share_auto_offset_reset="by_duration:PT1H")
    set_group_configs(wire, old, share_auto_offset_reset="by_duration:P9999D")
    assert ShareMember(wire, young, topic_id).offsets() == []
    assert ShareMember(wire, old, topic_id).offsets() == [*range(10)]


def test_partition_that_is_added_is_read_from_its_start(
    start_broker: StartBroker, connect: Connect, name: str
) -> None:
    wire = connect(start_broker())
    topic_id = create_topic(wire, name)
    group = new_name("g")
    ShareMember(wire, group, topic_id).offsets()
    more = CreatePartitionsTopic(name=name, count=2, assignments=None)
    wire.request(CreatePartitionsRequest(topics=(more,), timeout_ms=1000, validate_only=False))
    produce(wire, name, batch(b"before anybody looked"), partition=1)
    assert ShareMember(wire, group, topic_id, partition=1).offsets() == [0]


def test_acknowledgements_are_sent_with_the_next_fetch(member: ShareMember, name: str) -> None:
    produce(member.wire, name, batch(*TEN))
    member.offsets()
    part = member.fetch((0, 4, ACCEPT), (5, 9, RELEASE))
    assert part.acknowledge_error_code == 0
    assert member.held == [(5, 9, 2)]


def test_stale_acknowledgement_is_rejected_and_the_fetch_continues(member: ShareMember, name: str) -> None:
    produce(member.wire, name, batch(*TEN))
    member.offsets()
    produce(member.wire, name, batch(b"new"))
    part = member.fetch((5, 12, ACCEPT))
    assert part.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE
    assert member.held == [(10, 10, 1)]


def test_fetch_waits_for_records(member: ShareMember, name: str, connect: Connect, wire: Wire) -> None:
    member.offsets()
    wire.send(member.fetch_request(max_wait_ms=WAIT_MS), version=2)
    other = second(wire, connect)
    produce(other, name, batch(b"new"))
    member.take(wire.receive())
    assert member.held == [(0, 0, 1)]


def test_fetch_waits_for_records_that_others_release(
    member: ShareMember, name: str, connect: Connect, wire: Wire
) -> None:
    produce(wire, name, batch(*TEN))
    holder = ShareMember(second(wire, connect), member.group, member.topic_id)
    assert holder.offsets() == [*range(10)]
    wire.send(member.fetch_request(max_wait_ms=WAIT_MS), version=2)
    assert holder.acknowledge((3, 3, RELEASE)) is ErrorCode.NONE
    member.take(wire.receive())
    assert member.held == [(3, 3, 2)]


def test_fetch_waits_for_room_among_the_locks(
    member: ShareMember, name: str, connect: Connect, wire: Wire
) -> None:
    set_group_configs(wire, member.group, share_partition_max_record_locks=5)
    for value in TEN:
        produce(wire, name, batch(value))
    holder = ShareMember(second(wire, connect), member.group, member.topic_id)
    assert holder.offsets() == [*range(5)]
    wire.send(member.fetch_request(max_wait_ms=WAIT_MS), version=2)
    assert holder.acknowledge((0, 1, ACCEPT)) is ErrorCode.NONE
    member.take(wire.receive())
    assert member.held == [(5, 6, 1)]


def test_stalled_consumer_with_all_locks_delays_others_only_until_they_time_out(
    member: ShareMember, name: str, connect: Connect, wire: Wire
) -> None:
    set_group_configs(
        wire, member.group, share_partition_max_record_locks=5, share_record_lock_duration_ms=150
    )
    for value in TEN:
        produce(wire, name, batch(value))
    stalled = ShareMember(second(wire, connect), member.group, member.topic_id)
    assert stalled.offsets() == [*range(5)]
    done: list[int] = []
    while len(done) < 10:
        delivered = member.offsets(max_wait_ms=WAIT_MS)
        assert member.acknowledge(*((offset, offset, ACCEPT) for offset in delivered)) is ErrorCode.NONE
        done += delivered
    assert sorted(done) == [*range(10)]


def test_every_waiting_member_gets_its_record(
    name: str, topic_id: uuid.UUID, group: str, connect: Connect, wire: Wire
) -> None:
    """They stand in a line, each wants one record: what wakes the first is passed on to the others."""
    members = [ShareMember(second(wire, connect), group, topic_id) for _ in range(8)]
    for member in members:
        member.offsets()
        member.wire.send(member.fetch_request(max_wait_ms=WAIT_MS, max_records=1), version=2)
    produce(wire, name, batch(*TEN[:8]))
    for member in members:
        member.take(member.wire.receive())
    assert sorted(first for member in members for first, _, _ in member.held) == [*range(8)]


def test_released_records_wake_as_many_as_there_are_records(
    name: str, topic_id: uuid.UUID, group: str, connect: Connect, wire: Wire
) -> None:
    produce(wire, name, batch(*TEN))
    holder = ShareMember(wire, group, topic_id)
    assert holder.offsets() == [*range(10)]
    members = [ShareMember(second(wire, connect), group, topic_id) for _ in range(3)]
    for member in members:
        member.offsets()
        member.wire.send(member.fetch_request(max_wait_ms=WAIT_MS, max_records=1), version=2)
    assert holder.acknowledge((2, 4, RELEASE)) is ErrorCode.NONE
    for member in members:
        member.take(member.wire.receive())
    assert sorted(first for member in members for first, _, _ in member.held) == [2, 3, 4]


def test_fetch_waits_until_there_are_as_many_bytes_as_it_wants(
    member: ShareMember, name: str, connect: Connect, wire: Wire
) -> None:
    member.offsets()
    wire.send(member.fetch_request(max_wait_ms=WAIT_MS, min_bytes=1000), version=2)
    other = second(wire, connect)
    for _ in range(3):
        produce(other, name, batch(b"x" * 400))
    member.take(wire.receive())
    assert member.held == [(0, 2, 1)]


def test_record_of_an_expired_lock_is_delivered_to_another_member(
    member: ShareMember, name: str, wire: Wire
) -> None:
    set_group_configs(wire, member.group, share_record_lock_duration_ms=100)
    produce(wire, name, batch(*TEN))
    stalled = ShareMember(wire, member.group, member.topic_id)
    assert stalled.offsets() == [*range(10)]
    assert member.offsets(max_wait_ms=WAIT_MS) == [*range(10)]
    assert member.held == [(0, 9, 2)]
    assert stalled.acknowledge((0, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE


def test_broken_connection_releases_its_records(
    member: ShareMember, name: str, connect: Connect, wire: Wire
) -> None:
    produce(wire, name, batch(*TEN))
    doomed = second(wire, connect)
    assert ShareMember(doomed, member.group, member.topic_id).offsets() == [*range(10)]
    doomed.close()
    assert member.offsets(max_wait_ms=WAIT_MS) == [*range(10)]


def test_waiting_fetch_of_a_broken_connection_locks_nothing(
    member: ShareMember, name: str, connect: Connect, wire: Wire
) -> None:
    doomed = second(wire, connect)
    ghost = ShareMember(doomed, member.group, member.topic_id)
    ghost.offsets()
    doomed.send(ghost.fetch_request(max_wait_ms=WAIT_MS), version=2)
    doomed.close()
    produce(wire, name, batch(*TEN))
    assert member.offsets(max_wait_ms=WAIT_MS) == [*range(10)]


def test_released_record_waits_for_its_delay(member: ShareMember, name: str, wire: Wire) -> None:
    set_group_configs(wire, member.group, headrace_share_retry_backoff_ms=150)
    produce(wire, name, batch(b"again"))
    member.offsets()
    assert member.offsets((0, 0, RELEASE)) == []
    assert member.offsets(max_wait_ms=WAIT_MS) == [0]
    assert member.held == [(0, 0, 2)]


def test_session_counts_requests(member: ShareMember) -> None:
    member.offsets()
    member.offsets()
    assert member.fetch_all(share_session_epoch=1).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    member.epoch = 2
    assert member.offsets() == []
    stranger = member.fetch_all(member_id=str(uuid.uuid4()), share_session_epoch=3)
    assert stranger.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_new_session_keeps_the_locks_of_its_member(member: ShareMember, name: str) -> None:
    produce(member.wire, name, batch(*TEN))
    member.offsets()
    member.epoch = 0
    assert member.offsets() == []
    assert member.acknowledge((0, 9, ACCEPT)) is ErrorCode.NONE


def test_new_session_has_nothing_to_acknowledge(member: ShareMember) -> None:
    assert member.fetch_all((0, 0, ACCEPT)).error_code == ErrorCode.INVALID_REQUEST


def test_final_fetch_acknowledges_and_releases_the_rest(member: ShareMember, name: str, wire: Wire) -> None:
    produce(wire, name, batch(*TEN))
    member.offsets()
    part = member.fetch((0, 4, ACCEPT), share_session_epoch=-1)
    assert (part.acknowledge_error_code, len(part.records or b"")) == (0, 0)
    assert ShareMember(wire, member.group, member.topic_id).offsets() == [*range(5, 10)]


def test_too_many_sessions_are_rejected(start_broker: StartBroker, connect: Connect, name: str) -> None:
    wire = connect(start_broker(share_sessions_max=2))
    topic_id = create_topic(wire, name)
    for _ in range(2):
        ShareMember(wire, "g", topic_id).offsets()
    response = ShareMember(wire, "g", topic_id).fetch_all()
    assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_unknown_topics_and_partitions_are_errors(wire: Wire, topic_id: uuid.UUID) -> None:
    part = ShareMember(wire, "g", uuid.uuid4()).fetch(max_wait_ms=WAIT_MS)
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    part = ShareMember(wire, "g", topic_id, partition=9).fetch(max_wait_ms=WAIT_MS)
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleted_topic_ends_waiting(member: ShareMember, name: str, connect: Connect, wire: Wire) -> None:
    member.offsets()
    wire.send(member.fetch_request(max_wait_ms=WAIT_MS), version=2)
    delete_topic(second(wire, connect), name)
    assert wire.receive().error_code == 0
    assert member.fetch().error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_records_deleted_by_retention_are_skipped(member: ShareMember, name: str, wire: Wire) -> None:
    for value in TEN:
        produce(wire, name, batch(value))
    assert member.offsets(max_records=3) == [0, 1, 2]
    partition = DeleteRecordsPartition(partition_index=0, offset=6)
    wire.request(
        DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=name, partitions=(partition,)),), timeout_ms=1000
        )
    )
    assert ShareMember(wire, member.group, member.topic_id).offsets() == [6, 7, 8, 9]
    assert member.acknowledge((0, 2, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE


def test_poison_message_does_not_block_later_records(member: ShareMember, name: str, wire: Wire) -> None:
    set_group_configs(wire, member.group, share_partition_max_record_locks=10)
    produce(wire, name, batch(b"poison"))
    stuck = ShareMember(wire, member.group, member.topic_id)
    assert stuck.offsets() == [0]
    for _ in range(20):
        produce(wire, name, batch(*TEN[:5]))
        delivered = member.offsets()
        assert len(delivered) == 5
        assert member.acknowledge((delivered[0], delivered[-1], ACCEPT)) is ErrorCode.NONE
    offset = group_offset(wire, member.group)
    assert offset is not None
    assert (offset.start_offset, offset.lag) == (0, 1)


def test_records_of_many_partitions_are_in_one_response(member: ShareMember, name: str, wire: Wire) -> None:
    """Every third record is released by itself: they lie apart, in batches of one."""
    for number in range(60):
        produce(wire, name, batch(str(number).encode()))
    member.offsets()
    kinds = tuple(RELEASE if number % 3 == 0 else ACCEPT for number in range(60))
    assert member.acknowledge((0, 59, kinds)) is ErrorCode.NONE
    assert member.offsets() == [*range(0, 60, 3)]


def test_stop_of_the_broker_ends_waiting(start_broker: StartBroker, connect: Connect, name: str) -> None:
    broker = start_broker()
    wire = connect(broker)
    member = ShareMember(wire, "g", create_topic(wire, name))
    member.offsets()
    wire.send(member.fetch_request(max_wait_ms=WAIT_MS), version=2)
    broker.stop()
    assert wire.is_closed_by_broker()


@pytest.mark.parametrize(("records", "responses"), [(5, [{0, 1}]), (60, [{0}, {1}])])
def test_fetch_that_has_enough_leaves_other_partitions_to_other_members(
    wire: Wire, records: int, responses: list[set[int]]
) -> None:
    """Few records are fetched from all partitions; many are from one, and the next fetch starts with another."""
    name, group = new_name(), new_name("g")
    topic_id = create_topic(wire, name, partitions=2)
    set_group_configs(wire, group, share_auto_offset_reset="earliest")
    for partition in (0, 1):
        produce(wire, name, batch(*(b"x" for _ in range(records))), partition=partition)
    parts = tuple(share_fetch.FetchPartition(partition_index=partition) for partition in (0, 1))
    topics = (share_fetch.FetchTopic(topic_id=topic_id, partitions=parts),)
    member = ShareMember(wire, group, topic_id)
    for expected in responses:
        response = member.fetch_all(topics=topics)
        given = {
            part.partition_index: sum(one.last_offset - one.first_offset + 1 for one in part.acquired_records)
            for part in response.responses[0].partitions
            if part.acquired_records
        }
        assert given == dict.fromkeys(expected, records)
