"""The records of consumer groups (KIP-848), byte for byte."""

from __future__ import annotations

import uuid

from headrace.protocol.stored import (
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

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


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
