from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.records.errors import InvalidBatch
from headrace.records.varint import append_varint, read_varint


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_every_64_bit_number_is_read_back_with_the_position_after_it(value: int, rest: bytes) -> None:
    out = bytearray(b"\xff")
    append_varint(out, value)
    assert read_varint(bytes(out) + rest, 1) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (300, "d804")],
)
def test_encoding_is_zigzag_with_the_low_bits_first(value: int, encoded: str) -> None:
    out = bytearray()
    append_varint(out, value)
    assert out.hex() == encoded


def test_number_that_never_ends_is_rejected() -> None:
    with pytest.raises(InvalidBatch):
        read_varint(b"\x80" * 11 + b"\x00", 0)


def test_number_beyond_64_bits_is_rejected() -> None:
    with pytest.raises(InvalidBatch):
        read_varint(b"\xff" * 9 + b"\x7f", 0)
