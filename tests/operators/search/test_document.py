"""Documents as queries see them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa

from headrace.operators.search.document import Document, listed
from headrace.operators.search.query import ANY, Field, Kind

FIELDS = (
    Field("title", Kind.TEXT),
    Field("body", Kind.TEXT),
    Field("active", Kind.KEYWORD),
    Field("at", Kind.TIME),
)


def test_words_are_those_of_one_column_or_of_all_text_columns() -> None:
    document = Document(("Green tea", "tea, pot", True, None), FIELDS)
    assert document.words(0) == ["green", "tea"]
    assert document.word_set(ANY) == {"green", "tea", "pot"}
    assert document.word_set(2) == {"true"}
    assert document.count(ANY, "tea") == 2
    assert document.count(1, "tea") == 1
    assert document.joined(1) == "\ntea\npot\n"


def test_null_has_no_words() -> None:
    document = Document((None, None, None, None), FIELDS)
    assert document.word_set(ANY) == set()
    assert document.words(2) == []
    assert document.value(3) is None
    assert document.text(0) == ""


def test_times_are_compared_in_utc() -> None:
    noon_us = 1_772_366_400_000_000
    zone = timezone(timedelta(hours=2))
    for at in (
        datetime(2026, 3, 1, 12, tzinfo=UTC),
        datetime(2026, 3, 1, 12),  # noqa: DTZ001
        datetime(2026, 3, 1, 14, tzinfo=zone),
    ):
        assert Document((None, None, None, at), FIELDS).value(3) == noon_us
    assert Document((None, None, None, date(2026, 3, 1)), FIELDS).value(3) == noon_us - 12 * 3_600_000_000


def test_times_of_columns_are_numbers_also_those_that_python_does_not_have() -> None:
    noon_us, late_us = 1_772_366_400_000_000, 2**60
    times = pa.array([noon_us, None, late_us])
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        found = listed(times.cast(kind))
        assert found == [noon_us, None, late_us]
        assert Document((None, None, None, found[2]), FIELDS).value(3) == late_us
    days = pa.array([0, -1, 10**7], pa.int32()).cast(pa.date32())
    assert listed(days) == [0, -86_400_000_000, 864_000_000_000_000_000]
    assert listed(pa.array(["tea", None])) == ["tea", None]
