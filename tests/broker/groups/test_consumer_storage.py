"""Groups of the newer protocol as records."""

from __future__ import annotations

from headrace.broker.groups.consumer_state import (
    Change,
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    EpochsChange,
    MemberChange,
    PatternChange,
    Resolved,
    TargetChange,
)
from headrace.broker.groups.consumer_storage import ReadConsumerGroups, entries, facts, tombstones
from headrace.protocol import stored
from headrace.protocol import stored_consumer_groups as formats
from tests.broker.groups.consumer_simulation import SomeTopics


def decoded(data: bytes) -> formats.Key:
    key = stored.decode_key(data)
    assert isinstance(key, formats.Key)
    return key


def test_records_of_an_older_kafka_are_read_whatever_their_order() -> None:
    topic = SomeTopics(a=2).get("a")
    assert topic is not None
    has = formats.TopicPartitions(topic_id=topic.id, partitions=(1, 0), assignment_epochs=())
    records: list[tuple[formats.Key, object]] = [
        (
            formats.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            formats.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=5, previous_member_epoch=4, state=0, assigned_partitions=(has,)
            ),
        ),
        (
            formats.ConsumerGroupPartitionMetadataKey(group_id="g"),
            formats.ConsumerGroupPartitionMetadataValue(),
        ),
        (
            formats.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
            formats.ConsumerGroupMemberMetadataValue(subscribed_topic_names=("a",)),
        ),
        (formats.ConsumerGroupMetadataKey(group_id="g"), formats.ConsumerGroupMetadataValue(epoch=5)),
    ]
    read = ReadConsumerGroups()
    for key, value in records:
        read.put(key, stored.encode_value(value))
    member = read.groups()["g"].members["m"]
    assert member == ConsumerMember(
        member_id="m", topics=("a",), epoch=5, previous_epoch=4, assigned={topic.id: {0: 5, 1: 5}}
    )

    read.put(formats.ConsumerGroupMetadataKey(group_id="g"), None)
    assert read.groups() == {}


def test_group_is_read_from_the_records_of_its_changes_and_its_tombstones_delete_it() -> None:
    topic = SomeTopics(a=2).get("a")
    assert topic is not None
    member = ConsumerMember(
        member_id="m",
        instance_id="i",
        topics=("a",),
        pattern="b.*",
        epoch=3,
        assigned={topic.id: {0: 2, 1: 3}},
    )
    changes: list[Change] = [
        MemberChange(member_id="m", before=None, after=member),
        TargetChange(member_id="m", before=None, after={topic.id: frozenset({0, 1})}),
        PatternChange(
            pattern="b.*",
            before=None,
            after=Resolved(topics=frozenset({"b1"}), version=7, resolved_at_ms=9),
        ),
        EpochsChange(before=Epochs(), after=Epochs(group=3, topics_hash=5, target=3, assigned_at_ms=8)),
    ]
    written = ConsumerGroup("g")
    for change in changes:
        written.apply(change)
    read = ReadConsumerGroups()
    for entry in entries(facts("g", changes)):
        read.put(decoded(entry.key), entry.value)
    group = read.groups()["g"]
    assert (group.epochs, group.members, group.targets, group.patterns) == (
        written.epochs,
        written.members,
        written.targets,
        written.patterns,
    )
    for entry in entries(tombstones(group)):
        assert entry.value is None
        read.put(decoded(entry.key), None)
    assert read.groups() == {}


def test_key_that_changes_twice_is_one_entry_with_its_last_value() -> None:
    first, second = Epochs(group=1), Epochs(group=2)
    twice = [EpochsChange(before=Epochs(), after=first), EpochsChange(before=first, after=second)]
    [entry] = entries(facts("g", twice))
    assert entry.value == stored.encode_value(formats.ConsumerGroupMetadataValue(epoch=2))
