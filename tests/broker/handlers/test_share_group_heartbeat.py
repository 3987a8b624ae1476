"""ShareGroupHeartbeat over the wire: joining, partitions, epochs, leaving, and who is thrown out."""

from __future__ import annotations

import itertools
import uuid

import pytest

from headrace.broker.shares import coordinator
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.group_requests import join_request, stable_member
from tests.broker.requests import batch, create_topic, delete_topic, new_name, produce
from tests.broker.share_requests import ACCEPT, WAIT_MS, ShareMember, assigned, heartbeat, set_group_configs


@pytest.fixture
def group() -> str:
    return new_name("g")


def test_member_that_joins_gets_its_partitions_and_the_heartbeat_interval(wire: Wire, group: str) -> None:
    name = new_name()
    topic_id = create_topic(wire, name, partitions=3)
    response = heartbeat(wire, group, "a", 0, name)
    assert assigned(response) == {topic_id: (0, 1, 2)}
    assert (response.member_id, response.heartbeat_interval_ms) == ("a", 5000)
    assert response.member_epoch > 0
    again = heartbeat(wire, group, "a", response.member_epoch)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, response.member_epoch, None)


def test_each_partition_has_two_members_so_that_a_dead_one_delays_nothing(wire: Wire, group: str) -> None:
    name = new_name()
    topic_id = create_topic(wire, name, partitions=4)
    epochs = {member: heartbeat(wire, group, member, 0, name).member_epoch for member in "abc"}
    found: dict[str, tuple[int, ...]] = {}
    for member in "abc":
        response = heartbeat(wire, group, member, 0, name)
        found[member] = assigned(response)[topic_id]
        assert response.member_epoch >= epochs[member]
    assert sorted(itertools.chain(*found.values())) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(len(set(partitions)) for partitions in found.values()) == [2, 3, 3]


def test_records_of_a_stalled_members_partitions_reach_another(wire: Wire, group: str) -> None:
    """It keeps its locks and sends nothing: later records are delivered to the other member."""
    name = new_name()
    topic_id = create_topic(wire, name, partitions=2)
    set_group_configs(wire, group, share_auto_offset_reset="earliest")
    for member in ("stalled", "other"):
        heartbeat(wire, group, member, 0, name)
    given = {
        member: assigned(heartbeat(wire, group, member, 0, name))[topic_id] for member in ("stalled", "other")
    }
    assert given["stalled"]
    for partition in given["stalled"]:
        produce(wire, name, batch(b"1"), partition=partition)
        stalled = ShareMember(wire, group, topic_id, member="stalled", partition=partition)
        assert stalled.offsets() == [0]
        produce(wire, name, batch(b"2"), partition=partition)
        assert partition in given["other"]
        assert ShareMember(wire, group, topic_id, member="other", partition=partition).offsets() == [1]


def test_more_members_than_partitions_have_some_in_common(wire: Wire, group: str) -> None:
    name = new_name()
    topic_id = create_topic(wire, name, partitions=2)
    for member in "abcde":
        heartbeat(wire, group, member, 0, name)
    found = [assigned(heartbeat(wire, group, member, 0, name))[topic_id] for member in "abcde"]
    assert sorted(itertools.chain(*found)) == [0, 0, 0, 1, 1, 1]
    assert sorted(len(set(partitions)) for partitions in found) == [1, 1, 1, 1, 2]


def test_new_topics_and_partitions_are_assigned(wire: Wire, group: str) -> None:
    name = new_name()
    first = heartbeat(wire, group, "a", 0, name)
    assert assigned(first) == {}
    topic_id = create_topic(wire, name)
    second = heartbeat(wire, group, "a", first.member_epoch)
    assert assigned(second) == {topic_id: (0,)}
    more = CreatePartitionsTopic(name=name, count=3, assignments=None)
    wire.request(CreatePartitionsRequest(topics=(more,), timeout_ms=1000, validate_only=False))
    assert assigned(heartbeat(wire, group, "a", second.member_epoch)) == {topic_id: (0, 1, 2)}


@pytest.mark.parametrize("reset", ["latest", "by_duration:PT1H"])
@pytest.mark.parametrize("joins", [True, False])
def test_new_group_gets_no_old_records_of_any_partition(
    wire: Wire, group: str, reset: str, joins: bool
) -> None:
    """Whether it takes its place with a heartbeat, or partition by partition as it fetches."""
    name = new_name()
    topic_id = create_topic(wire, name, partitions=3)
    set_group_configs(wire, group, share_auto_offset_reset=reset)
    for partition in range(3):
        produce(wire, name, batch(b"old"), partition=partition)
    if joins:
        heartbeat(wire, group, "a", 0, name)
    members = [ShareMember(wire, group, topic_id, partition=partition) for partition in range(3)]
    assert [member.offsets() for member in members] == [[], [], []]
    for partition in range(3):
        produce(wire, name, batch(b"new"), partition=partition)
    assert [member.offsets(max_wait_ms=WAIT_MS) for member in members] == [[1], [1], [1]]


def test_group_gets_records_appended_to_a_new_partition_before_it_is_assigned(wire: Wire, group: str) -> None:
    name = new_name()
    topic_id = create_topic(wire, name)
    first = heartbeat(wire, group, "a", 0, name)
    more = CreatePartitionsTopic(name=name, count=2, assignments=None)
    wire.request(CreatePartitionsRequest(topics=(more,), timeout_ms=1000, validate_only=False))
    produce(wire, name, batch(b"early"), partition=1)
    heartbeat(wire, group, "a", first.member_epoch)
    assert ShareMember(wire, group, topic_id, partition=1).offsets(max_wait_ms=WAIT_MS) == [0]


def test_topic_that_is_created_again_is_assigned(wire: Wire, group: str) -> None:
    """Both happened between two heartbeats, so no member noticed the deletion."""
    name = new_name()
    create_topic(wire, name)
    first = heartbeat(wire, group, "a", 0, name)
    delete_topic(wire, name)
    topic_id = create_topic(wire, name)
    assert assigned(heartbeat(wire, group, "a", first.member_epoch)) == {topic_id: (0,)}


def test_subscription_can_change(wire: Wire, group: str) -> None:
    names = [new_name(), new_name()]
    ids = [create_topic(wire, name) for name in names]
    first = heartbeat(wire, group, "a", 0, names[0])
    second = heartbeat(wire, group, "a", first.member_epoch, *names)
    assert assigned(second) == {ids[0]: (0,), ids[1]: (0,)}
    assert assigned(heartbeat(wire, group, "a", second.member_epoch, names[1])) == {ids[1]: (0,)}


def test_member_whose_response_was_lost_may_repeat_its_heartbeat(wire: Wire, group: str, topic: str) -> None:
    first = heartbeat(wire, group, "a", 0, topic)
    heartbeat(wire, group, "b", 0, topic)
    second = heartbeat(wire, group, "a", first.member_epoch)
    assert heartbeat(wire, group, "a", first.member_epoch).member_epoch == second.member_epoch


def test_unknown_members_and_wrong_epochs_are_rejected(wire: Wire, group: str, topic: str) -> None:
    epoch = heartbeat(wire, group, "a", 0, topic).member_epoch
    assert heartbeat(wire, group, "a", epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert heartbeat(wire, group, "b", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(wire, group, "b", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(wire, group, "", 0, topic).error_code == ErrorCode.INVALID_REQUEST
    assert heartbeat(wire, "", "a", 0, topic).error_code == ErrorCode.INVALID_REQUEST
    assert heartbeat(wire, group, "c", 0).error_code == ErrorCode.INVALID_REQUEST


def test_member_that_leaves_can_acknowledge_and_releases_the_rest(wire: Wire, group: str) -> None:
    """Clients leave the group over one connection, and acknowledge what they hold over another."""
    name = new_name()
    topic_id = create_topic(wire, name)
    set_group_configs(wire, group, share_auto_offset_reset="earliest")
    produce(wire, name, batch(b"1", b"2"))
    heartbeat(wire, group, "a", 0, name)
    member = ShareMember(wire, group, topic_id, member="a")
    assert member.offsets() == [0, 1]
    response = heartbeat(wire, group, "a", -1)
    assert (response.error_code, response.member_epoch) == (0, -1)
    assert member.acknowledge((0, 0, ACCEPT), share_session_epoch=-1) is ErrorCode.NONE
    assert ShareMember(wire, group, topic_id, member="b").offsets() == [1]


def test_records_of_a_member_that_leaves_without_acknowledging_are_released(
    wire: Wire, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "LEAVE_GRACE_S", 0.05)
    name = new_name()
    topic_id = create_topic(wire, name)
    set_group_configs(wire, group, share_auto_offset_reset="earliest")
    produce(wire, name, batch(b"1", b"2"))
    heartbeat(wire, group, "a", 0, name)
    assert ShareMember(wire, group, topic_id, member="a").offsets() == [0, 1]
    heartbeat(wire, group, "a", -1)
    assert ShareMember(wire, group, topic_id, member="b").offsets(max_wait_ms=WAIT_MS) == [0, 1]


def test_member_without_heartbeats_is_removed_and_its_records_are_redelivered(wire: Wire, group: str) -> None:
    name = new_name()
    topic_id = create_topic(wire, name)
    assert (
        set_group_configs(
            wire,
            group,
            share_auto_offset_reset="earliest",
            share_session_timeout_ms=1000,
            share_heartbeat_interval_ms=200,
        )
        is ErrorCode.NONE
    )
    produce(wire, name, batch(b"1"))
    epoch = heartbeat(wire, group, "a", 0, name).member_epoch
    assert ShareMember(wire, group, topic_id, member="a").offsets() == [0]
    assert ShareMember(wire, group, topic_id, member="b").offsets(max_wait_ms=WAIT_MS) == [0]
    assert heartbeat(wire, group, "a", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_name_of_a_group_is_for_one_kind(wire: Wire, topic: str) -> None:
    classic, share = stable_member(wire, new_name()).group, new_name()
    assert heartbeat(wire, classic, "a", 0, topic).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert heartbeat(wire, share, "a", 0, topic).error_code == 0
    assert wire.request(join_request(share, "", topic)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_full_group_rejects_one_more(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(group_members_max=2))
    create_topic(wire, "t")
    assert [heartbeat(wire, "g", member, 0, "t").error_code for member in "ab"] == [0, 0]
    assert heartbeat(wire, "g", "c", 0, "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_ten_thousand_members_join_and_leave(wire: Wire, group: str) -> None:
    """Each costs the same, however many there are: no other member is read. A quadratic way would take minutes."""
    name = new_name()
    topic_id = create_topic(wire, name, partitions=8)
    members = [str(uuid.uuid4()) for _ in range(10_000)]
    for start in range(0, len(members), 50):
        for member in members[start : start + 50]:
            wire.send(_join(group, member, name))
        assert all(wire.receive().error_code == 0 for _ in range(50))
    assert len(assigned(heartbeat(wire, group, members[0], 0, name))[topic_id]) == 1
    for start in range(0, len(members), 50):
        for member in members[start : start + 50]:
            wire.send(_leave(group, member))
        assert all(wire.receive().error_code == 0 for _ in range(50))


def _join(group: str, member: str, topic: str) -> object:
    return _request(group, member, 0, (topic,))


def _leave(group: str, member: str) -> object:
    return _request(group, member, -1, None)


def _request(group: str, member: str, epoch: int, topics: tuple[str, ...] | None) -> object:
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
    )
