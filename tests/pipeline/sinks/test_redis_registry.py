from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.pipeline.sinks.redis_commands import texts_of
from headrace.pipeline.sinks.redis_registry import RedisSinkEntry, entries, value_of

VALUES: list[tuple[object, pa.DataType]] = [
    (True, pa.bool_()),
    (-(2**63), pa.int64()),
    (0.1, pa.float64()),
    (Decimal("-0.01"), pa.decimal128(9, 2)),
    ("Ünï: ", pa.string()),
    (b"\x00\xff", pa.binary()),
    (date(1969, 7, 20), pa.date32()),
    (datetime(2026, 11, 15, 13, 59, 0, 123456, tzinfo=UTC), pa.timestamp("us", "UTC")),
    (datetime.fromisoformat("2026-01-01T00:00:00.000001"), pa.timestamp("us")),
    (timedelta(days=-3, microseconds=1), pa.duration("us")),
    ([1, None], pa.list_(pa.int64())),
    (None, pa.string()),
]


@pytest.mark.parametrize(("value", "kind"), VALUES)
def test_value_is_the_one_that_was_stored(value: object, kind: pa.DataType) -> None:
    (text,) = texts_of(pa.chunked_array([pa.array([value], kind)]))
    assert value_of(text, kind) == value


def test_entry_has_the_columns_with_their_types() -> None:
    columns = pa.schema(
        [("id", pa.string()), ("n", pa.decimal128(38, 10)), ("at", pa.timestamp("us", "UTC"))]
    )
    entry = RedisSinkEntry.of("users", "job", key=("id",), columns=columns)
    (again,) = entries([entry.to_json()])
    assert again == entry
    assert again.schema == columns
