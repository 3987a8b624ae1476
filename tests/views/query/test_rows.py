"""That it agrees with databases is the property in `test_sql`; here are the values that databases type themselves."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from headrace.views.errors import BadView
from headrace.views.query.rows import selected
from headrace.views.query.text import parse


def values(rows: list[Any], text: str) -> list[Any]:
    selection = parse(text, columns=["value"], key=["value"])
    return [row["value"] for row in selected([{"value": each} for each in rows], selection)]


def test_text_that_is_compared_with_a_time_is_a_time() -> None:
    days = [date(2026, 1, 1), date(2026, 6, 1)]
    assert values(days, "WHERE value > '2026-03-01T10:00:00'") == days[1:]
    aware = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)]
    assert values(aware, "WHERE value > '2026-03-01'") == aware[1:]
    assert values(aware, "WHERE value = '2026-01-01T01:00:00+01:00'") == aware[:1]
    naive = [datetime(2026, 1, 1), datetime(2026, 6, 1)]  # noqa: DTZ001
    assert values(naive, "WHERE value < '2026-03-01T00:00:00Z'") == naive[:1]


def test_decimals_are_compared_with_all_numbers() -> None:
    assert values([Decimal("1.5"), Decimal(3)], "WHERE value > 1.5 AND value < 1e9") == [Decimal(3)]


def test_offset_skips_rows_of_the_order() -> None:
    assert values([3, 1, 2, 5, 4], "ORDER BY value DESC LIMIT 2 OFFSET 1") == [4, 3]


@pytest.mark.parametrize("text", ["WHERE value > 1", "WHERE value < '2026'"])
def test_values_that_cannot_be_compared_are_an_error(text: str) -> None:
    with pytest.raises(BadView):
        values(["Oslo"] if "1" in text else [date(2026, 1, 1)], text)


def test_pattern_takes_linear_time() -> None:
    """It may come from anyone; a pattern that backtracks would not end."""
    assert values(["a" * 10_000], f"WHERE value LIKE '{'a%' * 200}b'") == []
