"""The column of the event time."""

from __future__ import annotations

import pytest
from pyspark.sql.types import DateType, StructField, StructType, TimestampType

from headrace.pipeline.errors import BadSource
from headrace.pipeline.source.columns import check_event_time, check_watermark


def test_event_time_has_to_be_a_timestamp() -> None:
    schema = StructType([StructField("at", TimestampType()), StructField("day", DateType())])
    check_event_time(schema, "at")
    with pytest.raises(BadSource, match="the event time day is of type date"):
        check_event_time(schema, "day")


def test_watermark_needs_an_event_time() -> None:
    check_watermark("at", "1 hour", hint="")
    check_watermark(None, None, hint="")
    with pytest.raises(BadSource, match="needs an event time") as raised:
        check_watermark(None, "1 hour", hint="the remedy")
    assert raised.value.hint == "the remedy"
