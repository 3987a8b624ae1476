"""ConsumerGroupHeartbeat over the wire. The expected responses are those of Apache Kafka 4.3."""

from __future__ import annotations

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headrace.protocol.messages.sync_group import SyncGroupRequestAssignment
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.consumer_group_requests import (
    WireMember,
    consumer_heartbeat,
    describe,
    member,
    rejection,
    stabilize,
)
from tests.broker.group_requests import (
    GroupMember,
    commit,
    committed,
    heartbeat,
    join,
    join_request,
    stable_member,
    sync_request,
)
from tests.broker.observing import eventually
from tests.broker.requests import create_topic, new_name


@pytest.fixture
def group() -> str:
    return new_name("g")


@pytest.fixture
def four(wire: Wire) -> str:
    """A topic with four partitions."""
    name = new_name()
    create_topic(wire, name, partitions=4)
    return name


def test_the_feature_is_finalized(wire: Wire) -> None:
    features = wire.request(
        ApiVersionsRequest(client_software_name="t", client_software_version="1"), version=4
    )
    assert ("group.version", 1) in [(one.name, one.max_version_level) for one in features.finalized_features]


@pytest.mark.parametrize(
    ("epoch", "changes", "error"),
    [
        (0, {"group_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"member_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        (0, {"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        (0, {"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        (-2, {}, ErrorCode.INVALID_REQUEST),
        (-5, {}, ErrorCode.INVALID_REQUEST),
        (0, {"server_assignor": "missing"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        (0, {"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        (3, {}, ErrorCode.GROUP_ID_NOT_FOUND),
        (-1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_invalid_request_is_rejected_and_creates_no_group(
    wire: Wire, group: str, epoch: int, changes: dict[str, object], error: ErrorCode
) -> None:
    if epoch == 0:
        changes = {"subscribed_topic_names": ("t",), **changes}
    assert rejection(wire, group, "m", epoch, **changes) is error
    assert describe(wire, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_partition_is_assigned_only_after_its_owner_has_revoked_it(wire: Wire, group: str, four: str) -> None:
    first = member(wire, group, "first", four)
    assert (first.epoch, first.partitions) == (1, [0, 1, 2, 3])
    had = first.reported()

    second = member(wire, group, "second", four)
    assert (second.epoch, second.partitions) == (2, [])
    # It gets what it keeps, and stays in its epoch until it has revoked the rest.
    response = first.beat(topic_partitions=had)
    assert (response.member_epoch, first.partitions) == (1, [0, 1])
    assert first.beat(topic_partitions=had).assignment is None
    assert second.beat().assignment is None

    assert first.beat().member_epoch == 2
    second.beat()
    assert (second.epoch, second.partitions) == (2, [2, 3])
    assert describe(wire, group).group_state == "Stable"


def test_member_of_version_0_gets_an_id(wire: Wire, group: str, four: str) -> None:
    response = consumer_heartbeat(wire, group, "", 0, version=0, subscribed_topic_names=(four,))
    assert (response.error_code, response.member_epoch) == (0, 1)
    assert response.member_id


def test_lost_response_is_repeated_and_a_wrong_epoch_is_fenced(wire: Wire, group: str, four: str) -> None:
    one = member(wire, group, "m", four)
    other = member(wire, group, "n", four)
    one.beat()
    before = one.epoch
    one.beat()
    assert one.epoch > before
    # The same request again, as if the last response was lost.
    again = consumer_heartbeat(wire, group, "m", before, topic_partitions=one.reported())
    assert (again.error_code, again.member_epoch) == (0, one.epoch)

    assert rejection(wire, group, "m", before) is ErrorCode.FENCED_MEMBER_EPOCH
    assert rejection(wire, group, "m", one.epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert rejection(wire, group, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    # A fenced member joins again under its own id.
    rejoined = consumer_heartbeat(wire, group, "m", 0, subscribed_topic_names=(four,))
    assert (rejoined.error_code, rejoined.member_epoch) == (0, one.epoch)
    stabilize(one, other)


def test_static_member_rejoins_with_its_assignment_and_its_id_is_exclusive(
    wire: Wire, group: str, four: str
) -> None:
    static = member(wire, group, "s1", four, instance_id="i")
    other = member(wire, group, "o", four)
    stabilize(static, other)
    epoch, partitions = static.epoch, static.partitions
    instance = {"instance_id": "i", "subscribed_topic_names": (four,)}

    assert rejection(wire, group, "s2", 0, **instance) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert rejection(wire, group, "s2", epoch, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert rejection(wire, group, "s2", epoch, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID

    away = consumer_heartbeat(wire, group, "s1", -2, instance_id="i")
    assert (away.error_code, away.member_epoch) == (0, -2)
    assert rejection(wire, group, "s1", epoch, instance_id="i") is ErrorCode.FENCED_MEMBER_EPOCH
    back = member(wire, group, "s2", four, instance_id="i")
    assert (back.epoch, back.partitions) == (epoch, partitions)
    assert rejection(wire, group, "s1", epoch, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert rejection(wire, group, "s1", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert other.beat().assignment is None


def test_members_that_leave_or_time_out_make_room(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker()
    wire = connect(broker)
    create_topic(wire, "t", partitions=4)
    set_times(wire, "g", session_ms=1_000, heartbeat_ms=100)
    first, second, third = (member(wire, "g", name, "t") for name in ("a", "b", "c"))
    stabilize(first, second, third)

    left = consumer_heartbeat(wire, "g", "c", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    stabilize(first, second)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]

    def second_is_out() -> bool:
        first.beat()
        return first.partitions == [0, 1, 2, 3]

    eventually(second_is_out, "the silent member has lost its partitions")
    assert rejection(wire, "g", "b", second.epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_does_not_revoke_is_removed_after_its_rebalance_timeout(
    wire: Wire, group: str, four: str
) -> None:
    stubborn = WireMember(wire=wire, group=group, member_id="m", topics=(four,))
    stubborn.beat(rebalance_timeout_ms=300)
    had = stubborn.reported()
    other = member(wire, group, "n", four)

    def is_out() -> bool:
        response = consumer_heartbeat(wire, group, "m", stubborn.epoch, topic_partitions=had)
        return response.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    eventually(is_out, "it is out")
    stabilize(other)
    assert other.partitions == [0, 1, 2, 3]


def set_times(
    wire: Wire, group: str, *, session_ms: int, heartbeat_ms: int, error: ErrorCode = ErrorCode.NONE
) -> None:
    resource = AlterConfigsResource(
        resource_type=32,
        resource_name=group,
        configs=(
            AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value=str(session_ms)),
            AlterableConfig(
                name="consumer.heartbeat.interval.ms", config_operation=0, value=str(heartbeat_ms)
            ),
        ),
    )
    [changed] = wire.request(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert changed.error_code == error, changed


def test_the_config_of_the_group_sets_the_heartbeat_interval(wire: Wire, group: str, four: str) -> None:
    assert member(wire, group, "m", four).beat().heartbeat_interval_ms == 5_000
    set_times(wire, group, session_ms=10_000, heartbeat_ms=700)
    assert consumer_heartbeat(wire, group, "m", 1).heartbeat_interval_ms == 700
    set_times(wire, group, session_ms=1_000, heartbeat_ms=1_000, error=ErrorCode.INVALID_CONFIG)


def test_created_grown_and_deleted_topics_change_the_assignment(wire: Wire, group: str) -> None:
    name = new_name()
    one = member(wire, group, "m", name)
    assert one.partitions == []
    topic_id = create_topic(wire, name, partitions=1)
    one.beat()
    assert one.owned == {topic_id: (0,)}
    wire.request(
        CreatePartitionsRequest(topics=(CreatePartitionsTopic(name=name, count=3),), timeout_ms=1000)
    )
    one.beat()
    assert one.owned == {topic_id: (0, 1, 2)}
    wire.request(DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1000))
    one.beat()
    assert one.owned == {}
    again = create_topic(wire, name, partitions=2)
    one.beat()
    one.beat()
    assert one.owned == {again: (0, 1)}


def test_regular_expression_matches_whole_names_of_present_and_new_topics(wire: Wire, group: str) -> None:
    prefix = new_name("p")
    ids = {create_topic(wire, f"{prefix}-a", partitions=1)}
    create_topic(wire, f"x{prefix}-a", partitions=1)
    one = WireMember(wire=wire, group=group, member_id="m", topics=())
    one.beat(subscribed_topic_names=(), subscribed_topic_regex=f"{prefix}-.*")
    assert one.owned.keys() == ids
    ids.add(create_topic(wire, f"{prefix}-b", partitions=1))
    one.beat()
    assert one.owned.keys() == ids
    one.beat(subscribed_topic_regex="")
    assert one.owned == {}


def test_a_regular_expression_matches_internal_topics_as_in_kafka(any_wire: Wire, any_group: str) -> None:
    one = WireMember(wire=any_wire, group=any_group, member_id=new_name("m"), topics=())
    one.beat(subscribed_topic_names=(), subscribed_topic_regex="__consumer_.*")
    named = (MetadataRequestTopic(name="__consumer_offsets"),)

    def is_assigned() -> bool:
        (offsets,) = any_wire.request(MetadataRequest(topics=named, allow_auto_topic_creation=False)).topics
        one.beat()
        return one.owned.keys() == {offsets.topic_id}

    eventually(is_assigned, "the pattern was resolved, which Kafka does in the background")


def test_the_assignor_that_most_members_request_is_used(wire: Wire, group: str, four: str) -> None:
    members = [WireMember(wire=wire, group=group, member_id=f"m{n}", topics=(four,)) for n in range(2)]
    for one in members:
        one.beat(server_assignor="range")
    stabilize(*members)
    assert [one.partitions for one in members] == [[0, 1], [2, 3]]
    assert describe(wire, group).assignor_name == "range"


def test_a_group_has_no_more_members_than_allowed(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(group_members_max=1))
    member(wire, "g", "a", "t")
    full = rejection(wire, "g", "b", 0, subscribed_topic_names=("t",))
    assert full is ErrorCode.GROUP_MAX_SIZE_REACHED


# Offsets


def fetch_error(wire: Wire, group: str, topic: str, member_id: str | None, epoch: int) -> ErrorCode:
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=(0,))
    requested = OffsetFetchRequestGroup(
        group_id=group, member_id=member_id, member_epoch=epoch, topics=(wanted,)
    )
    [response] = wire.request(OffsetFetchRequest(groups=(requested,)), version=9).groups
    return ErrorCode(response.error_code)


def test_offsets_are_committed_and_read_with_the_member_s_epoch(wire: Wire, group: str, four: str) -> None:
    one, other = member(wire, group, "m", four), member(wire, group, "n", four)
    stabilize(one, other)

    def try_commit(member_id: str, epoch: int, *, partition: int = 0, version: int = 9) -> ErrorCode:
        who = GroupMember(group=group, member_id=member_id, generation=epoch)
        return commit(wire, group, four, 7, member=who, partition=partition, version=version)

    kept, gained = one.partitions[0], other.partitions[0]
    assert try_commit("m", one.epoch) is ErrorCode.NONE
    assert try_commit("m", one.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    # An earlier epoch is as good for what the member has had since then, and for nothing else.
    assert try_commit("m", 1, partition=kept) is ErrorCode.NONE
    assert try_commit("n", 1, partition=gained) is ErrorCode.STALE_MEMBER_EPOCH
    assert try_commit("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert try_commit("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert try_commit("m", one.epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION

    assert fetch_error(wire, group, four, "m", one.epoch) is ErrorCode.NONE
    assert fetch_error(wire, group, four, "m", one.epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch_error(wire, group, four, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch_error(wire, group, four, None, -1) is ErrorCode.NONE
    assert committed(wire, group, four) == 7


def test_offsets_of_consumed_topics_and_groups_with_members_are_not_deleted(
    wire: Wire, group: str, four: str
) -> None:
    assert commit(wire, group, four, 3) is ErrorCode.NONE
    member(wire, group, "m", four)
    assert committed(wire, group, four) == 3
    wanted = OffsetDeleteRequestTopic(
        name=four, partitions=(OffsetDeleteRequestPartition(partition_index=0),)
    )
    request = OffsetDeleteRequest(group_id=group, topics=(wanted,))
    rejected = wire.request(request).topics[0].partitions[0].error_code
    assert rejected == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    delete = DeleteGroupsRequest(groups_names=(group,))
    assert wire.request(delete).results[0].error_code == ErrorCode.NON_EMPTY_GROUP

    consumer_heartbeat(wire, group, "m", -1)
    assert wire.request(request).topics[0].partitions[0].error_code == 0
    assert wire.request(delete).results[0].error_code == 0
    assert describe(wire, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND


# Both protocols


def test_classic_member_in_the_group_is_assigned_partitions_by_the_broker(
    wire: Wire, group: str, four: str
) -> None:
    newer = member(wire, group, "m", four)
    classic = join(wire, group, four)
    assert classic.generation == 2
    assert wire.request(sync_request(classic, assignments=())).assignment == classic_assignment()
    newer.beat()
    newer.beat()
    assert heartbeat(wire, classic) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = wire.request(join_request(group, classic.member_id, four))
    assert (rejoined.error_code, rejoined.generation_id, rejoined.leader) == (0, 2, "")
    synced = wire.request(sync_request(classic, assignments=()))
    assert synced.assignment == classic_assignment(four, 2, 3)
    assert heartbeat(wire, classic) is ErrorCode.NONE
    assert {one.member_type for one in describe(wire, group).members} == {0, 1}

    other_kind = wire.request(join_request(group, "", four, protocol_type="connect"))
    assert other_kind.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def classic_assignment(topic: str = "", *partitions: int) -> bytes:
    """What a leader would have sent: version 0, one topic or none, no data of its own."""
    count = (1 if partitions else 0).to_bytes(4)
    name = len(topic).to_bytes(2) + topic.encode() + len(partitions).to_bytes(4) if partitions else b""
    return b"\0\0" + count + name + b"".join(one.to_bytes(4) for one in partitions) + b"\xff" * 4


def test_classic_group_is_upgraded_and_downgraded_with_its_members(wire: Wire, group: str, four: str) -> None:
    classic = join(wire, group, four)
    has_all = classic_assignment(four, 0, 1, 2, 3)
    synced = wire.request(sync_request(classic, assignments=assigned_to(classic, has_all)))
    assert synced.assignment == has_all
    newer = member(wire, group, "m", four)
    assert (newer.epoch, newer.partitions) == (2, [])
    assert types_of(wire, group) == [("consumer", "Reconciling")]

    assert heartbeat(wire, classic) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = wire.request(join_request(group, classic.member_id, four))
    moved = GroupMember(group=group, member_id=classic.member_id, generation=rejoined.generation_id)
    assert wire.request(sync_request(moved, assignments=())).assignment == classic_assignment(four, 0, 1)
    newer.beat()
    assert newer.partitions == [2, 3]
    assert commit(wire, group, four, 5, member=moved) is ErrorCode.NONE

    consumer_heartbeat(wire, group, "m", -1)
    assert types_of(wire, group) == [("classic", "PreparingRebalance")]
    again = wire.request(join_request(group, classic.member_id, four))
    assert (again.error_code, again.leader) == (0, classic.member_id)
    assert committed(wire, group, four) == 5


def assigned_to(who: GroupMember, assignment: bytes) -> tuple[object, ...]:
    return (SyncGroupRequestAssignment(member_id=who.member_id, assignment=assignment),)


def types_of(wire: Wire, group: str) -> list[tuple[str, str]]:
    listed = wire.request(ListGroupsRequest(), version=5).groups
    return [(one.group_type, one.group_state) for one in listed if one.group_id == group]


def test_classic_group_of_another_protocol_type_is_not_upgraded(wire: Wire, group: str, four: str) -> None:
    join(wire, group, four, protocol_type="connect")
    joined = rejection(wire, group, "m", 0, subscribed_topic_names=(four,))
    assert joined is ErrorCode.GROUP_ID_NOT_FOUND
    assert [kind for kind, _ in types_of(wire, group)] == ["classic"]


def test_group_without_members_changes_its_protocol(wire: Wire, group: str, four: str) -> None:
    member(wire, group, "m", four)
    consumer_heartbeat(wire, group, "m", -1)
    assert types_of(wire, group) == [("consumer", "Empty")]
    stable_member(wire, group, four)
    assert types_of(wire, group) == [("classic", "Stable")]


def test_groups_are_listed_by_type_and_state(wire: Wire, group: str, four: str) -> None:
    member(wire, group, "m", four)

    def listed(**filters: tuple[str, ...]) -> bool:
        found = wire.request(ListGroupsRequest(**filters), version=5).groups
        return group in [one.group_id for one in found]

    assert listed(types_filter=("consumer",))
    assert not listed(types_filter=("classic",))
    assert listed(states_filter=("stable",))
    assert not listed(states_filter=("Empty",))


def test_join_beyond_the_limit_of_groups_is_rejected(start_broker: StartBroker, connect: Connect) -> None:
    broker: Broker = start_broker(groups_max=1)
    wire = connect(broker)
    member(wire, "g", "m", "t")
    assert rejection(wire, "h", "m", 0, subscribed_topic_names=("t",)) is ErrorCode.GROUP_MAX_SIZE_REACHED
