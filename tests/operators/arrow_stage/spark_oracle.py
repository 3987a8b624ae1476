"""Random tables, and expressions on them that Spark and the stage evaluate."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import Phase, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.operators.arrow_stage.plan import StagePlan, find_stage
from headrace.plan_names import COLUMNS_ALIAS

UTC_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("url", pa.string()),
        ("at", UTC_TIME),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("ms", pa.int64()),
        ("other", pa.int64()),
        ("n", pa.int32()),
        ("small", pa.int16()),
        ("tiny", pa.int8()),
        ("score", pa.float64()),
        ("weight", pa.float64()),
        ("ratio", pa.float32()),
        ("is_new", pa.bool_()),
        ("is_paid", pa.bool_()),
        ("price", pa.decimal128(10, 2)),
        ("body", pa.binary()),
        ("place", pa.struct([("city", pa.string()), ("number", pa.int32())])),
        ("tags", pa.list_(pa.string())),
    ]
)


def _integer(random: Random, bits: int) -> int:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    near = random.choice([0, 1, -1, 2, 3, 100, least, least + 1, most, most - 1])
    few = random.randint(max(least, -1_000), min(most, 1_000))
    return int(random.choice([near, few, random.randint(least, most)]))


FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1.5,
    float("nan"),
    float("inf"),
    float("-inf"),
    5e-324,
    1.7e308,
    2.0**53 + 2,
]
PARTS = ["a", "ab", "b", "https://", "shop", "%", "_", "\\", "é", "漢", "🙂", "\0", "A", " ", "ß", "x" * 40]
TIMES = [0, -1, 1, 999, -1_000, -62_135_596_800_000_000, 253_402_300_800_000_000]


def _float(random: Random) -> float:
    bits = random.getrandbits(64).to_bytes(8, "little")
    return float(
        random.choice([random.choice(FLOATS), random.uniform(-1e4, 1e4), *struct.unpack("<d", bits)])
    )


def _ratio(random: Random) -> float:
    bits = random.getrandbits(32).to_bytes(4, "little")
    return float(random.choice([random.choice(FLOATS[:9]), *struct.unpack("<f", bits)]))


def _text(random: Random) -> str:
    return "".join(random.choice(PARTS) for _ in range(random.choice([0, 1, 1, 2, 3, 6])))


def _time(random: Random) -> int:
    return random.choice([random.choice(TIMES), random.randint(0, 2**51), random.randint(-(2**62), 2**62)])


def _place(random: Random) -> dict[str, Any]:
    return {"city": _or_none(random, _text), "number": random.choice([None, _integer(random, 32)])}


def _or_none(random: Random, value: Callable[[Random], Any]) -> Any:
    return value(random) if random.randrange(8) else None


_VALUES: dict[str, Callable[[Random], Any]] = {
    "user": _text,
    "url": _text,
    "at": _time,
    "local": _time,
    "day": lambda random: random.randint(-1_000_000, 3_000_000),
    "ms": lambda random: _integer(random, 64),
    "other": lambda random: _integer(random, 64),
    "n": lambda random: _integer(random, 32),
    "small": lambda random: _integer(random, 16),
    "tiny": lambda random: _integer(random, 8),
    "score": _float,
    "weight": _float,
    "ratio": _ratio,
    "is_new": lambda random: random.random() < 0.5,
    "is_paid": lambda random: random.random() < 0.5,
    "price": lambda random: Decimal(random.randint(-10_000_000_000 + 1, 10_000_000_000 - 1)).scaleb(-2),
    "body": lambda random: random.randbytes(random.randrange(40)),
    "place": _place,
    "tags": lambda random: [_or_none(random, _text) for _ in range(random.randrange(3))],
}


def random_table(seed: int, count: int = 300) -> pa.Table:
    """Rows with many corner cases, and a null in one place of eight."""
    random = Random(seed)
    names = list(_VALUES)
    return as_table([{name: _or_none(random, _VALUES[name]) for name in names} for _ in range(count)])


_FORMS = {
    "boolean": (
        "is_new",
        "is_paid",
        "true",
        "false",
        "cast(null as boolean)",
        "(not {boolean})",
        "({boolean} and {boolean})",
        "({boolean} or {boolean})",
        "({boolean} = {boolean})",
        "({boolean} <=> {boolean})",
        "({bigint} is null)",
        "({string} is not null)",
        "({bigint} < {bigint})",
        "({bigint} in (0, 1, {bigint}, null))",
        "({double} >= {double})",
        "({double} <=> {double})",
        "isnan({double})",
        "({timestamp} > {timestamp})",
        "({string} < {string})",
        "({string} in ('a', 'ab', ''))",
        "({string} like 'a%')",
        "startswith({string}, 'ab')",
        "contains({string}, 'b')",
        "({bigint} between {bigint} and {bigint})",
        "if({boolean}, {boolean}, {boolean})",
        "coalesce({boolean}, {boolean})",
    ),
    "bigint": (
        "ms",
        "other",
        "1L",
        "-3L",
        "cast(null as bigint)",
        "cast(n as bigint)",
        "cast({boolean} as bigint)",
        "cast(length({string}) as bigint)",
        "unix_micros({timestamp})",
        "unix_millis({timestamp})",
        "({bigint} % 7)",
        "pmod({bigint}, 5)",
        "({bigint} & {bigint})",
        "shiftrightunsigned({bigint}, 3)",
        "greatest({bigint}, {bigint})",
        "xxhash64({string}, {bigint})",
        "xxhash64({boolean}, {double}, {timestamp})",
        "if({boolean}, {bigint}, {bigint})",
        "case when {boolean} then {bigint} when {boolean} then {bigint} end",
        "coalesce({bigint}, {bigint})",
        "nullif({bigint}, {bigint})",
    ),
    "double": (
        "score",
        "weight",
        "0.5D",
        "cast(null as double)",
        "cast({bigint} as double)",
        "({double} + {double})",
        "({double} * {double})",
        "(-{double})",
        "abs({double})",
        "if({boolean}, {double}, {double})",
        "nanvl({double}, {double})",
        "coalesce({double}, {double})",
    ),
    "string": (
        "user",
        "url",
        "'a'",
        "''",
        "cast(null as string)",
        "cast({bigint} as string)",
        "cast({boolean} as string)",
        "concat({string}, {string})",
        "if({boolean}, {string}, {string})",
        "coalesce({string}, {string})",
        "place.city",
    ),
    "timestamp": (
        "at",
        "cast(local as timestamp)",
        "timestamp'2020-01-01 10:00:00'",
        "timestamp_micros({bigint})",
        "if({boolean}, {timestamp}, {timestamp})",
        "coalesce({timestamp}, {timestamp})",
    ),
}
"""By type, the forms of expressions, and the types of what is inside."""


def random_expression(random: Random, kind: str = "", depth: int = 4) -> str:
    """An expression that never fails."""
    forms = _FORMS[kind or random.choice(list(_FORMS))]
    if depth == 0:
        forms = tuple(each for each in forms if "{" not in each)
    parts = re.split(r"{(\w+)}", random.choice(forms))
    return "".join(
        random_expression(random, part, depth - 1) if number % 2 else part
        for number, part in enumerate(parts)
    )


SEEDS = st.integers(0, 2**32)
QUICK = settings(max_examples=5, phases=(Phase.explicit, Phase.generate))
"""Each example has hundreds of rows, and is a call of Spark. A smaller seed is no smaller example."""


def as_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.table([_column(rows, each) for each in SCHEMA], schema=SCHEMA)


def _column(rows: Sequence[dict[str, Any]], field: pa.Field) -> pa.Array:
    values = [each.get(field.name) for each in rows]
    if pa.types.is_temporal(field.type):
        numbers = pa.array(values, pa.int32() if pa.types.is_date32(field.type) else pa.int64())
        return numbers.view(field.type)
    return pa.array(values, field.type)


def source(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows as a source marks them."""
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    return spark.createDataFrame(table, schema).alias(f"{COLUMNS_ALIAS}clicks")


def selected(rows: DataFrame, texts: Sequence[str]) -> DataFrame:
    return rows.select(*(F.expr(text).alias(f"x{number}") for number, text in enumerate(texts)))


def stage_of(rows: DataFrame) -> StagePlan:
    stage = find_stage(rows)
    assert stage is not None
    return stage


def values_of(table: pa.Table) -> list[list[str]]:
    """The values of each column as text, which distinguishes zeros and has one NaN."""
    return [list(map(repr, _as_numbers(column).to_pylist())) for column in table.columns]


def _as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times of all years, which Python's have not."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def assert_same(stage: StagePlan, table: pa.Table, rows: DataFrame, texts: Sequence[str]) -> None:
    """Assert that the stage and Spark have the same results."""
    found, expected = stage.apply(table).table, rows.toArrow()
    for text, ours, sparks in zip(texts, values_of(found), values_of(expected), strict=True):
        if ours != sparks:
            place = next(at for at, pair in enumerate(zip(ours, sparks, strict=True)) if pair[0] != pair[1])
            row = {name: column[place] for name, column in zip(SCHEMA.names, table.columns, strict=True)}
            raise AssertionError(f"{text}: {ours[place]}, but Spark has {sparks[place]}, of {row}")
