from __future__ import annotations

import uuid

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

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


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
