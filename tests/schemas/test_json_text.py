"""Schemas that are written as JSON."""

from __future__ import annotations

import pytest

from headrace.schemas.errors import InvalidSchema
from headrace.schemas.json_text import DEPTH_MAX, canonical, decode, encode


def test_equal_values_have_equal_canonical_bytes() -> None:
    assert (
        canonical(decode('{"b": 1, "a": [true]}'))
        == canonical(decode('{"a":[true],"b":1}'))
        == b'{"a":[true],"b":1}'
    )


def test_encoding_keeps_the_order_of_keys() -> None:
    assert encode(decode('{ "b": 1, "a": "ü" }')) == '{"b":1,"a":"ü"}'


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "nul", '"\ud800"'])
def test_a_text_that_is_not_json_is_invalid(text: str) -> None:
    with pytest.raises(InvalidSchema, match="not JSON"):
        decode(text)


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 100_000])
def test_nesting_has_a_bound(depth: int) -> None:
    assert decode("[" * DEPTH_MAX + "]" * DEPTH_MAX)
    with pytest.raises(InvalidSchema, match="levels deep"):
        decode("[" * depth + "]" * depth)
