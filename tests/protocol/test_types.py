"""How messages and their fields are declared."""

from __future__ import annotations

import struct

import pytest
from msgspec import Struct

from headrace.protocol.types import (
    MESSAGE_INFO,
    SAME_AS_DEFAULT,
    Int32,
    Wire,
    is_struct,
    message,
    nullable_since,
    since,
    tagged,
    until,
)


def test_message_is_registered_with_its_api_and_its_direction() -> None:
    @message(api_key=999, versions=(1, 3), flexible_since=2)
    class SampleRequest(Struct, frozen=True, kw_only=True):
        number: Int32 = 5

    try:
        info = MESSAGE_INFO[SampleRequest]
        assert (info.api_key, info.versions, info.flexible_since, info.is_request) == (999, (1, 3), 2, True)
        assert SampleRequest().number == 5
        assert is_struct(SampleRequest)
    finally:
        del MESSAGE_INFO[SampleRequest]


def test_message_must_be_a_request_or_a_response_by_its_name() -> None:
    with pytest.raises(AssertionError, match="Sample"):

        @message(api_key=999, versions=(0, 0), flexible_since=None)
        class Sample(Struct, frozen=True, kw_only=True):
            number: Int32 = 5


def test_marks_of_a_field_keep_their_versions() -> None:
    assert (since(5).version, until(12).version, nullable_since(7).version) == (5, 12, 7)
    assert (tagged(1).tag, tagged(1).since, tagged(1).absent) == (1, None, SAME_AS_DEFAULT)
    assert (tagged(2, since=3, absent=None).since, tagged(2, since=3, absent=None).absent) == (3, None)


def test_fixed_sizes_are_those_of_the_wire() -> None:
    fixed = {Wire.BOOL: 1, Wire.INT8: 1, Wire.INT16: 2, Wire.UINT16: 2, Wire.INT32: 4, Wire.UINT32: 4}
    fixed |= {Wire.INT64: 8, Wire.FLOAT64: 8, Wire.UUID: 16}
    assert {wire: struct.calcsize(">" + wire.value) for wire in fixed} == fixed
    assert not is_struct(int)
    assert not is_struct(Wire.INT8)
