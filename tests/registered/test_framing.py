"""The bytes in front of a record with the id of a schema."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.registered.errors import BadRecord
from headrace.registered.framing import (
    DEPTH_MAX,
    FIRST_MESSAGE,
    PREFIX_BYTES,
    message_path,
    path_bytes,
    prefix,
    schema_id,
)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=8))
def test_id_is_read_as_it_was_written(number: int, body: bytes) -> None:
    assert schema_id(prefix(number) + body) == number


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=DEPTH_MAX).map(tuple), st.binary(max_size=8))
def test_path_of_a_message_is_read_as_it_was_written(path: tuple[int, ...], body: bytes) -> None:
    head = prefix(1) + path_bytes(path)
    assert message_path(head + body) == (path, len(head))


def test_first_message_is_one_byte() -> None:
    assert path_bytes(FIRST_MESSAGE) == b"\0"


@given(st.binary(max_size=20))
def test_any_bytes_are_a_path_or_a_bad_record(data: bytes) -> None:
    with contextlib.suppress(BadRecord):  # and no other error
        path, position = message_path(b"\0" * PREFIX_BYTES + data)
        assert PREFIX_BYTES < position <= PREFIX_BYTES + len(data)
        assert 0 < len(path) <= DEPTH_MAX


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b"\0\0\0", "3 bytes are too few"),
        (b"\1\0\0\0\0", "magic byte is 0x01"),
    ],
)
def test_record_without_an_id_is_bad(record: bytes, problem: str) -> None:
    with pytest.raises(BadRecord, match=problem):
        schema_id(record)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (b"", "ends within the path"),
        (b"\x04\x00", "ends within the path"),
        (b"\x01", "has -1 numbers"),
        (b"\xff\xff\xff\xff\xff\xff", "too large"),
        (b"\xc8\x01", "has 100 numbers"),
    ],
)
def test_path_that_is_none_is_bad(path: bytes, problem: str) -> None:
    with pytest.raises(BadRecord, match=problem):
        message_path(prefix(1) + path)
