"""Variable-length integers, tag buffers and UUIDs."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.primitives import (
    HEADER_TAGS_MAX,
    MalformedMessage,
    read_uvarint,
    skip_tags,
    uuid_of,
    uvarint,
)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=5), st.binary(max_size=5))
def test_varints_are_read_back_from_the_middle_of_a_buffer(number: int, before: bytes, after: bytes) -> None:
    encoded = uvarint(number)
    assert read_uvarint(before + encoded + after, len(before)) == (number, len(before) + len(encoded))


@pytest.mark.parametrize(
    ("number", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_bytes_of_varints_are_those_of_kafka(number: int, encoded: str) -> None:
    assert uvarint(number).hex() == encoded


@pytest.mark.parametrize("encoded", ["ffffffff10", "8080808080", "ffffffffff01"])
def test_varint_of_more_than_32_bits_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedMessage):
        read_uvarint(bytes.fromhex(encoded), 0)


@given(st.lists(st.tuples(st.integers(0, 1000), st.binary(max_size=200)), max_size=5), st.binary(max_size=5))
def test_position_after_a_tag_buffer_is_that_of_what_follows(
    tags: list[tuple[int, bytes]], after: bytes
) -> None:
    encoded = uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in tags)
    assert skip_tags(encoded + after, 0) == len(encoded)


def test_tag_buffer_that_is_longer_than_its_message_or_has_too_many_tags_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="longer"):
        skip_tags(uvarint(1) + uvarint(0) + uvarint(2) + b"x", 0)
    with pytest.raises(MalformedMessage, match=str(HEADER_TAGS_MAX + 1)):
        skip_tags(uvarint(HEADER_TAGS_MAX + 1), 0)


@given(st.uuids())
def test_uuids_are_remembered(one: uuid.UUID) -> None:
    assert uuid_of(one.bytes) == one
    assert uuid_of(one.bytes) is uuid_of(one.bytes)
