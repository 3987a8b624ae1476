"""The records of share groups in `__consumer_offsets`, byte for byte."""

from __future__ import annotations

import uuid

from headrace.protocol.stored import encode_key, encode_value
from headrace.protocol.stored_share_groups import (
    FORMATS,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_kinds_are_those_of_kafka() -> None:
    assert [one.kind for one in FORMATS] == [10, 11, 12, 13, 14, 15]


def test_bytes_of_keys_and_values_follow_the_definitions_field_by_field() -> None:
    member = ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
    assert encode_key(member).hex() == "000e" + "000167" + "00016d"
    assert encode_key(ShareGroupStatePartitionMetadataKey(group_id="g")).hex() == "000f" + "000167"
    value = ShareGroupStatePartitionMetadataValue(
        initialized_topics=(TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name="t", partitions=(3,)),),
        deleting_topics=(TopicInfo(topic_id=TOPIC_ID, topic_name="u"),),
    )
    assert encode_value(value).hex() == (
        "0000" + "01"
        "02" + TOPIC_ID.hex + "0274" + "0200000003" + "00"
        "02" + TOPIC_ID.hex + "0275" + "00"
        "00"
    )  # fmt: skip
