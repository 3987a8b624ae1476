"""Hashes of keys: the same as those of the decoded records, for every shape of a record."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.records.errors import InvalidBatch
from headrace.records.keys import key_hashes
from headrace.records.record import Record, encode_batch, records_section

RECORDS = st.lists(
    st.builds(
        lambda key, value, timestamp_ms, headers: Record(
            offset=0, timestamp_ms=timestamp_ms, key=key, value=value, headers=headers
        ),
        st.none() | st.binary(max_size=80) | st.integers(60, 9_000).map(bytes),
        st.none() | st.binary(max_size=80) | st.integers(60, 9_000).map(bytes),
        st.integers(0, 2**40),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=10,
)


def section_of(records: list[Record]) -> bytes:
    numbered = [
        Record(offset=n, timestamp_ms=r.timestamp_ms, key=r.key, value=r.value, headers=r.headers)
        for n, r in enumerate(records)
    ]
    return records_section(encode_batch(numbered), bytes_max=1 << 20)


@given(RECORDS)
def test_every_key_has_the_hash_of_its_bytes(records: list[Record]) -> None:
    expected = [None if each.key is None else hash(each.key) for each in records]
    assert key_hashes(section_of(records), len(records)) == expected


@given(RECORDS, st.data())
def test_cut_section_is_an_error_and_never_a_hang(records: list[Record], data: st.DataObject) -> None:
    section = section_of(records)
    cut = section[: data.draw(st.integers(0, len(section) // 2))]
    with pytest.raises(InvalidBatch):
        key_hashes(cut, len(records) * 1000)


@given(st.binary(max_size=100), st.integers(0, 50))
def test_any_bytes_give_hashes_or_an_error(section: bytes, count: int) -> None:
    with contextlib.suppress(InvalidBatch):
        assert len(key_hashes(section, count)) == count
