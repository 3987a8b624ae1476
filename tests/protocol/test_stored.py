from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.stored import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    encode_key,
    encode_value,
)
from headrace.protocol.stored_consumer_groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from headrace.protocol.stored_format import StoredFormat, StoredTopic
from headrace.protocol.stored_share_state import (
    SHARE_GROUP_STATE,
    ShareSnapshotKey,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from headrace.protocol.stored_transactions import (
    TRANSACTION_STATE,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from tests.protocol.samples import (
    STORED_TOPICS,
    every_stored_format,
    full_sample,
    messages,
    random_samples,
    stored_versions_of,
)

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
SAMPLES = 12

every_format = pytest.mark.parametrize(
    ("topic", "stored_format"),
    list(every_stored_format()),
    ids=lambda one: f"{one.key.__name__}-{one.kind}" if isinstance(one, StoredFormat) else "",
)


def number(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


@given(st.data(), st.sampled_from(list(every_stored_format())))
def test_keys_are_read_as_they_were_written(
    data: st.DataObject, chosen: tuple[StoredTopic[Any], StoredFormat]
) -> None:
    topic, stored_format = chosen
    key = data.draw(messages(stored_format.key, 0))
    assert topic.decode_key(topic.encode_key(key)) == key


@given(st.data(), st.sampled_from(list(every_stored_format())))
def test_values_are_read_as_they_were_written(
    data: st.DataObject, chosen: tuple[StoredTopic[Any], StoredFormat]
) -> None:
    topic, stored_format = chosen
    version = data.draw(st.sampled_from(stored_versions_of(stored_format)))
    value = data.draw(messages(stored_format.value, version))
    assert topic.decode_value(stored_format.value, topic.encode_value(value, version)) == value


@every_format
def test_values_are_written_in_the_newest_version_unless_another_is_asked_for(
    topic: StoredTopic[Any], stored_format: StoredFormat
) -> None:
    newest = stored_format.version_newest
    for value in random_samples(stored_format.value, newest, SAMPLES):
        assert topic.encode_value(value) == topic.encode_value(value, newest)
        assert topic.encode_value(value)[:2] == number(newest)


def test_offset_keys_of_the_oldest_kind_are_read() -> None:
    assert decode_key(b"\0\0" + b"\0\x01g" + b"\0\x01t" + b"\0\0\0\x05") == OffsetCommitKey(
        group="g", topic="t", partition=5
    )


def test_the_bytes_of_offsets_and_classic_groups_follow_the_definitions_field_by_field() -> None:
    assert (
        encode_key(OffsetCommitKey(group="g", topic="t", partition=5)).hex()
        == "0001000167000174" + "00000005"
    )
    assert encode_key(GroupMetadataKey(group="g")).hex() == "0002000167"
    offset = OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=3, topic_id=TOPIC_ID)
    assert encode_value(offset, 3).hex() == (
        "0003" + "0000000000000009" + "00000002" + "00016d" + "0000000000000003"
    )
    assert encode_value(offset, 4).hex() == (
        "0004" + "0000000000000009" + "00000002" + "026d" + "0000000000000003" + "010010" + TOPIC_ID.hex
    )
    group = GroupMetadataValue(
        protocol_type="c", generation=1, members=(MemberMetadata(member_id="a", session_timeout=6),)
    )
    assert encode_value(group, 0).hex() == (
        "0000" + "000163" + "00000001" + "ffff" + "ffff" + "00000001"
        "000161" + "0000" + "0000" + "00000006" + "00000000" + "00000000"
    )  # fmt: skip


def test_the_bytes_of_newer_groups_follow_the_definitions_field_by_field() -> None:
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    assert encode_key(key).hex() == "0005" + "000167" + "00016d"
    classic = ClassicMemberMetadata(
        session_timeout_ms=6, supported_protocols=(ClassicProtocol(name="p", metadata=b"\xaa"),)
    )
    member = ConsumerGroupMemberMetadataValue(
        client_id="c", subscribed_topic_names=("t",), rebalance_timeout_ms=7, classic_member_metadata=classic
    )
    assert encode_value(member).hex() == (
        "0000" + "00" + "00" + "0263" + "01" + "020274" + "00" + "00000007" + "00"
        "01" + "000c" + "01" + "00000006" + "02" + "0270" + "02aa" + "00" + "00"
    )  # fmt: skip
    newer = ConsumerGroupMemberMetadataValue(client_id="c")
    assert encode_value(newer).hex() == (
        "0000" + "00" + "00" + "0263" + "01" + "01" + "00" + "ffffffff" + "00" + "01" + "0001" + "00"
    )
    assigned = TopicPartitions(topic_id=TOPIC_ID, partitions=(3,), assignment_epochs=(4,))
    current = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2, previous_member_epoch=1, state=0, assigned_partitions=(assigned,)
    )
    assert encode_value(current).hex() == (
        "0000" + "00000002" + "00000001" + "00"
        "02" + TOPIC_ID.hex + "0200000003" + "01" + "0005" + "0200000004" + "01" + "00"
    )  # fmt: skip


def test_the_bytes_of_share_state_follow_the_definitions_field_by_field() -> None:
    snapshot_key = ShareSnapshotKey(group_id="g", topic_id=TOPIC_ID, partition=5)
    update_key = ShareUpdateKey(group_id="g", topic_id=TOPIC_ID, partition=5)
    assert SHARE_GROUP_STATE.encode_key(snapshot_key).hex() == "0000" + "000167" + TOPIC_ID.hex + "00000005"
    assert SHARE_GROUP_STATE.encode_key(update_key).hex() == "0001" + "000167" + TOPIC_ID.hex + "00000005"
    batch = StateBatch(first_offset=1, last_offset=2, delivery_state=4, delivery_count=3)
    update = ShareUpdateValue(
        snapshot_epoch=7, leader_epoch=8, delivery_complete_count=9, state_batches=(batch,)
    )
    assert SHARE_GROUP_STATE.encode_value(update).hex() == (
        "0000" + "00000007" + "00000008" + "ffffffffffffffff"
        "02" + "0000000000000001" + "0000000000000002" + "04" + "0003" + "00"
        "01" + "0004" + "00000009"
    )  # fmt: skip


def test_the_bytes_of_transactions_follow_the_definitions_field_by_field() -> None:
    assert TRANSACTION_STATE.encode_key(TransactionLogKey(transactional_id="x")).hex() == "0000" + "000178"
    value = TransactionLogValue(
        producer_id=1,
        next_producer_id=6,
        producer_epoch=2,
        transaction_timeout_ms=3,
        transaction_status=4,
        transaction_partitions=(PartitionsSchema(topic="t", partition_ids=(9,)),),
        transaction_last_update_timestamp_ms=5,
        client_transaction_version=2,
    )
    fixed = "0000000000000001" + "0002" + "00000003" + "04"
    assert TRANSACTION_STATE.encode_value(value, 0).hex() == (
        "0000" + fixed + "00000001" + "000174" + "00000001" + "00000009" + "0000000000000005" + "ff" * 8
    )
    assert TRANSACTION_STATE.encode_value(value, 1).hex() == (
        "0001" + fixed + "02" + "0274" + "02" + "00000009" + "00" + "0000000000000005" + "ff" * 8
        + "02" + "0108" + "0000000000000006" + "0202" + "0002"
    )  # fmt: skip


@pytest.mark.parametrize("topic", STORED_TOPICS)
def test_a_key_of_another_kind_is_none(topic: StoredTopic[Any]) -> None:
    kinds = {stored_format.kind for stored_format in topic.formats}
    for kind in {-1, *range(20), 32767} - kinds:
        assert topic.decode_key(number(kind) + b"anything") is None


@every_format
def test_a_value_of_an_unknown_version_says_what_to_do(
    topic: StoredTopic[Any], stored_format: StoredFormat
) -> None:
    for version in (-1, stored_format.version_newest + 1, 32767):
        with pytest.raises(MalformedMessage, match=f"version {version}.*newer version"):
            topic.decode_value(stored_format.value, number(version) + b"\0" * 40)


@every_format
def test_keys_and_values_cut_at_any_byte_are_malformed(
    topic: StoredTopic[Any], stored_format: StoredFormat
) -> None:
    key = topic.encode_key(full_sample(stored_format.key, 0))
    for size in range(len(key)):
        with pytest.raises(MalformedMessage):
            topic.decode_key(key[:size])
    for version in stored_versions_of(stored_format):
        value = topic.encode_value(full_sample(stored_format.value, version), version)
        for size in range(len(value)):
            with pytest.raises(MalformedMessage):
                topic.decode_value(stored_format.value, value[:size])
