from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.opensearch_layout import (
    ID_BYTES_MAX,
    columns_of,
    document,
    exact_field,
    identity,
    index_body,
    row_of,
)

VALUES: list[tuple[Any, pa.DataType]] = [
    (True, pa.bool_()),
    (2**63 - 1, pa.int64()),
    (-math.inf, pa.float64()),
    (Decimal("1234567890123456789012345678.0123456789"), pa.decimal128(38, 10)),
    ("text", pa.string()),
    (b"\x00\xff", pa.binary()),
    (date(1969, 7, 20), pa.date32()),
    (datetime(2026, 11, 15, 13, 59, 0, 123456, tzinfo=UTC), pa.timestamp("us", "UTC")),
    (datetime.fromisoformat("2026-03-29 02:30"), pa.timestamp("us")),
    (timedelta(hours=-1), pa.duration("us")),
    ([date(2026, 1, 1), None], pa.list_(pa.date32())),
    ({"a": 1}, pa.map_(pa.string(), pa.int64())),
    (None, pa.string()),
]


def test_row_is_the_one_that_was_stored() -> None:
    columns = pa.schema([(f"c{place}", kind) for place, (_, kind) in enumerate(VALUES)])
    row = {f"c{place}": value for place, (value, _) in enumerate(VALUES)}
    stored = json.loads(json.dumps(document(row), allow_nan=False))
    assert row_of(stored, columns) == row


def test_index_has_its_columns_and_key() -> None:
    columns = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    assert columns_of(index_body(columns, ("id",))["mappings"]) == (columns, ("id",))
    with pytest.raises(BadSink, match="was not created by Headrace"):
        columns_of({"properties": {}})


TEXTS = st.text(alphabet='a"[],#\\é', max_size=3)


@given(one=st.tuples(TEXTS, TEXTS), other=st.tuples(TEXTS, TEXTS))
def test_different_keys_have_different_identities(one: tuple[str, str], other: tuple[str, str]) -> None:
    def of(key: tuple[str, str]) -> str:
        return identity(dict(zip("ab", key, strict=True)), "ab")

    assert (of(one) == of(other)) == (one == other)
    single = [identity({"a": key[0]}, "a") for key in (one, other)]
    assert (single[0] == single[1]) == (one[0] == other[0])


def test_identity_of_a_plain_text_is_the_text_and_a_long_one_is_a_digest() -> None:
    assert identity({"city": "Oslo"}, ["city"]) == "Oslo"
    assert identity({"id": 7}, ["id"]) == "[7]"
    longest = "é" * (ID_BYTES_MAX // 2)
    assert identity({"city": longest}, ["city"]) == longest
    digests = [identity({"city": longest + end}, ["city"]) for end in "ab"]
    assert all(len(each) == 65 for each in digests)
    assert digests[0] != digests[1]


def test_values_are_counted_where_they_are_found_as_a_whole() -> None:
    assert exact_field("city", pa.string()) == "city.exact"
    assert exact_field("tags", pa.list_(pa.string())) == "tags.exact"
    assert exact_field("n", pa.int64()) == "n"
    assert exact_field("at", pa.timestamp("us")) is None
