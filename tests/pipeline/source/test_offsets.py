"""Offsets in Spark's notation, and the range of a batch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.source.offsets import (
    EARLIEST,
    HEARTBEAT_OFFSET,
    is_heartbeat,
    offsets_of,
    offsets_text,
    smallest_offsets,
    span_of_batch,
)

OFFSETS = st.dictionaries(st.text(), st.dictionaries(st.integers(0), st.integers(EARLIEST)))


@given(OFFSETS)
def test_offsets_survive_their_text(offsets: dict[str, dict[int, int]]) -> None:
    assert offsets_of(offsets_text(offsets)) == offsets
    assert offsets_of(json.loads(offsets_text(offsets))) == offsets


@pytest.mark.parametrize(
    "found",
    [
        None,
        "-",
        "17",
        "[1, 2]",
        {HEARTBEAT_OFFSET: 5},
        {"shard": {"0": {"sequence": "49590338271490256608559692538361571095921575989136588898"}}},
        {"files": {"logOffset": 3, "mode": "latest"}},
        {"clicks": {"0": 3}, "version": 1},
        {"clicks": {"0": None}},
        {"clicks": [1, 2]},
    ],
    ids=str,
)
def test_offset_of_another_source_has_no_topics(found: Any) -> None:
    assert offsets_of(found) == {}
    if not isinstance(found, str):
        assert offsets_of(json.dumps(found)) == {}


def test_heartbeat_is_recognised() -> None:
    assert is_heartbeat({HEARTBEAT_OFFSET: 5})
    assert is_heartbeat(json.dumps({HEARTBEAT_OFFSET: 5}))
    assert not is_heartbeat('{"clicks":{"0":3}}')


def test_batch_spans_from_its_start_to_its_end() -> None:
    span = span_of_batch('{"clicks":{"0":3}}', '{"clicks":{"0":7}}')
    assert (span.starts, span.ends) == ({"clicks": {0: 3}}, {"clicks": {0: 7}})
    assert {name: json.loads(text) for name, text in span.options().items()} == {
        "assign": {"clicks": [0]},
        "startingOffsets": {"clicks": {"0": 3}},
        "endingOffsets": {"clicks": {"0": 7}},
    }


def test_partition_that_is_new_in_a_batch_is_read_from_its_earliest_offset() -> None:
    span = span_of_batch('{"clicks":{"0":3}}', '{"clicks":{"0":7,"1":2},"views":{"0":1}}')
    assert span.starts == {"clicks": {0: 3, 1: EARLIEST}, "views": {0: EARLIEST}}
    assert span_of_batch(None, '{"clicks":{"0":7}}').starts == {"clicks": {0: EARLIEST}}


def test_smallest_offset_counts_if_several_sources_read_a_partition() -> None:
    texts = ['{"a": {"0": 7, "1": 2}}', '{"a": {"0": 5}, "b": {"0": 1}}', '{"headrace.idle_us": 5}', "-"]
    assert smallest_offsets(texts) == {"a": {0: 5, 1: 2}, "b": {0: 1}}
