"""The commands for the rows of a batch, without a Redis."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.sinks.redis_commands import RedisLayout, texts_of


def layout(**options: Any) -> RedisLayout:
    given = {"name": "c", "key": ("id",), "score": None, "per": (), "order_by": None, "expire_s": None}
    return RedisLayout(**{**given, **options})


def words(layout: RedisLayout, *rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    commands, rejected = layout.commands(pa.Table.from_pylist(list(rows)))
    assert rejected == []
    return [command.words for command in commands]


def test_row_is_a_hash_and_its_nulls_are_deleted_fields() -> None:
    rows = {"id": "a", "n": 1, "note": "x"}, {"id": "b", "n": 2, "note": None}
    assert words(layout(), *rows) == [
        ("HSET", b"c:a", "id", b"a", "n", b"1", "note", b"x"),
        ("HSET", b"c:b", "id", b"b", "n", b"2"),
        ("HDEL", b"c:b", "note"),
    ]


def test_deletes_come_first() -> None:
    rows = {"id": "a", "op": "c"}, {"id": "b", "op": "d"}
    assert words(layout(), *rows) == [("DEL", b"c:b"), ("HSET", b"c:a", "id", b"a")]
    scored = ({**row, "n": 1.5} for row in rows)
    assert words(layout(score="n"), *scored) == [("ZREM", b"c", b"b"), ("ZADD", b"c", "1.5", b"a")]


def test_sorted_set_for_each_value_of_per_expires_once() -> None:
    rows = [{"id": each, "n": 1, "part": part} for each, part in (("a", "x"), ("b", "x"), ("a", "y"))]
    assert words(layout(score="n", per=("part",), expire_s=9), *rows) == [
        ("ZADD", b"c:x", "1.0", b"a"),
        ("ZADD", b"c:x", "1.0", b"b"),
        ("ZADD", b"c:y", "1.0", b"a"),
        ("EXPIRE", b"c:x", 9),
        ("EXPIRE", b"c:y", 9),
    ]


def test_last_row_of_a_key_is_written() -> None:
    rows = {"id": "a", "n": 2, "at": 5}, {"id": "a", "n": 1, "at": 4}
    (command,) = layout(order_by="at").commands(pa.Table.from_pylist(list(rows)))[0]
    assert command.row() == rows[0]


KEYS = st.tuples(st.text("a:\\"), st.text("a:\\"))


@given(KEYS, KEYS)
def test_keys_of_several_columns_never_meet(one: tuple[str, str], other: tuple[str, str]) -> None:
    rows = [dict(zip("ab", key, strict=True)) for key in (one, other)]
    assert len({each[1] for each in words(layout(key=("a", "b")), *rows)}) == len({one, other})


def test_row_without_a_key_or_a_score_is_rejected_once() -> None:
    rows = [
        {"id": None, "n": None},
        {"id": "a", "n": None},
        {"id": "b", "n": float("nan")},
        {"id": "c", "n": 1.0},
    ]
    commands, rejected = layout(score="n").commands(pa.Table.from_pylist(rows))
    assert [each.reason for each in rejected] == ["id is null", "n is null", "n is null"]
    assert [command.words[-1] for command in commands] == [b"c"]


def test_delete_needs_no_score() -> None:
    deleted = {"id": "a", "n": None, "op": "d"}
    rows = pa.Table.from_pylist([deleted], pa.schema([("id", "string"), ("n", "double"), ("op", "string")]))
    commands, rejected = layout(score="n").commands(rows)
    assert ([command.words for command in commands], rejected) == ([("ZREM", b"c", b"a")], [])


def test_patterns_match_the_keys_of_the_sink_only() -> None:
    assert layout(name="a*[b]?").patterns() == ["a\\*\\[b\\]\\?", "a\\*\\[b\\]\\?:*"]


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (True, pa.bool_(), b"true"),
        (1.5, pa.float64(), b"1.5"),
        (Decimal("1.50"), pa.decimal128(5, 2), b"1.50"),
        (b"\x00\xff", pa.binary(), b"\x00\xff"),
        (
            datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            pa.timestamp("us", "UTC"),
            b"2026-01-02T03:04:05.000006Z",
        ),
        ([1, None], pa.list_(pa.int64()), b"[1,null]"),
        (None, pa.string(), None),
    ],
    ids=str,
)
def test_value_is_stored_as_its_text(value: Any, type: pa.DataType, text: bytes | None) -> None:
    assert texts_of(pa.chunked_array([[value]], type)) == [text]
