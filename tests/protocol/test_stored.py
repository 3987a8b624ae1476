from __future__ import annotations

import uuid

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
    decode_value,
    encode_key,
    encode_value,
)
from tests.protocol.samples import messages

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")

VERSIONS = range(5)


@given(messages(OffsetCommitKey, 1) | messages(GroupMetadataKey, 2))
def test_keys_are_read_as_they_were_written(key: OffsetCommitKey | GroupMetadataKey) -> None:
    assert decode_key(encode_key(key)) == key


@given(st.data(), st.sampled_from(VERSIONS), st.sampled_from([OffsetCommitValue, GroupMetadataValue]))
def test_values_are_read_as_they_were_written(
    data: st.DataObject, version: int, cls: type[OffsetCommitValue] | type[GroupMetadataValue]
) -> None:
    value = data.draw(messages(cls, version))
    assert decode_value(cls, encode_value(value, version)) == value


def test_offset_keys_of_the_oldest_kind_are_read() -> None:
    assert decode_key(b"\0\0" + b"\0\x01g" + b"\0\x01t" + b"\0\0\0\x05") == OffsetCommitKey(
        group="g", topic="t", partition=5
    )


def test_the_bytes_follow_the_definitions_field_by_field() -> None:
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


@pytest.mark.parametrize("kind", [-1, 3, 4, 15, 32767])
def test_a_key_of_another_kind_is_none(kind: int) -> None:
    assert decode_key(kind.to_bytes(2, "big", signed=True) + b"anything") is None


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_a_value_of_an_unknown_version_says_what_to_do(version: int) -> None:
    with pytest.raises(MalformedMessage, match=f"version {version}.*newer version"):
        decode_value(OffsetCommitValue, version.to_bytes(2, "big", signed=True) + b"\0" * 40)


def test_keys_and_values_cut_at_any_byte_are_malformed() -> None:
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=5))
    for size in range(len(key)):
        with pytest.raises(MalformedMessage):
            decode_key(key[:size])
    for version in VERSIONS:
        value = encode_value(OffsetCommitValue(offset=9, commit_timestamp=3, metadata="m"), version)
        for size in range(len(value)):
            with pytest.raises(MalformedMessage):
                decode_value(OffsetCommitValue, value[:size])
