"""Variable-length integers, tag buffers and UUIDs."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.primitives import (
    MalformedMessage,
    read_uvarint,
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


@given(st.uuids())
def test_uuids_are_cached(one: uuid.UUID) -> None:
    assert uuid_of(one.bytes) == one
    assert uuid_of(one.bytes) is uuid_of(one.bytes)
