"""The hashes of whole columns are those of Spark, bit by bit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.operators.xxhash import SEED, HashedColumn, can_hash, seed_array
from tests.operators.arrow_stage.spark_oracle import QUICK, SEEDS, random_table

ALPHABET = "aé漢🙂\0"


def hashes_of(*columns: pa.Array) -> list[int]:
    hashes = seed_array(SEED)
    for each in columns:
        hashes = HashedColumn(each).hashes(hashes)
    found: list[int] = np.broadcast_to(hashes.view(np.int64), len(columns[0])).tolist()
    return found


def sparks_hashes(spark: SparkSession, table: pa.Table, *names: str) -> list[int]:
    rows = spark.createDataFrame(table)
    found = rows.select(F.xxhash64(*(names or rows.columns)).alias("hash")).toArrow()
    hashes: list[int] = found["hash"].to_pylist()
    return hashes


def test_texts_and_binaries_of_all_lengths_have_the_hashes_of_spark(spark: SparkSession) -> None:
    lengths = range(201)
    texts = pa.array(["".join(ALPHABET[(n + at) % 3 :][0] for at in range(n)) for n in lengths])
    ascii_texts = pa.array([("0123456789abcdef" * 13)[:n] for n in lengths])
    binaries = pa.array([bytes((7 * at + n) % 256 for at in range(n)) for n in lengths], pa.binary())
    for each in (texts, ascii_texts, binaries):
        table = pa.table({"each": each})
        assert hashes_of(each) == sparks_hashes(spark, table)
        shuffled = each.take(pa.array(np.random.default_rng(1).permutation(len(each))))
        assert sorted(hashes_of(shuffled)) == sorted(hashes_of(each))


@QUICK
@given(SEEDS)
def test_columns_of_all_types_have_the_hashes_of_spark(spark: SparkSession, seed: int) -> None:
    table = random_table(seed)
    table = table.select([each.name for each in table.schema if can_hash(each.type)])
    assert table.num_columns > 15
    rows = spark.createDataFrame(table)
    hashes = [F.xxhash64(name).alias(name) for name in rows.columns]
    expected = rows.select(*hashes, F.xxhash64(*rows.columns).alias("all")).toArrow()
    columns = [each.combine_chunks() for each in table.columns]
    for name, column in zip(table.column_names, columns, strict=True):
        assert hashes_of(column) == expected[name].to_pylist(), name
        assert hashes_of(column.slice(7, 50)) == expected[name].to_pylist()[7:57], name
    assert hashes_of(*columns) == expected["all"].to_pylist()


TEXTS = st.lists(st.none() | st.text(st.sampled_from(ALPHABET + "b"), max_size=80), min_size=1, max_size=30)


@given(TEXTS, st.lists(st.integers(0, 2**64 - 1), min_size=30, max_size=30))
def test_hash_of_a_text_depends_on_no_other_row(texts: list[str | None], seeds: list[int]) -> None:
    column, own = pa.array(texts, pa.string()), np.array(seeds[: len(texts)], dtype=np.uint64)
    alone = [
        int(HashedColumn(column.slice(place, 1)).hashes(own[place : place + 1])[0])
        for place in range(len(texts))
    ]
    assert HashedColumn(column).hashes(own).tolist() == alone


@pytest.mark.parametrize("nulls", [False, True])
def test_texts_that_repeat_have_the_same_hashes(nulls: bool) -> None:
    distinct = [f"user-{number}" for number in range(1_000)]
    some = [None if nulls and number % 11 == 0 else distinct[number * 7 % 1_000] for number in range(20_000)]
    column = pa.array(some, pa.string())
    by_text = dict(zip(distinct, hashes_of(pa.array(distinct)), strict=True))
    assert hashes_of(column) == [SEED if each is None else by_text[each] for each in some]
    hashed = HashedColumn(column)
    assert hashed.hashes(seed_array(1)).tolist() != hashed.hashes(seed_array(2)).tolist()
    assert hashed.hashes(seed_array(SEED)).view(np.int64).tolist()[1] == by_text[distinct[7]]


def test_nulls_leave_the_hash_as_it_is() -> None:
    nothing = pa.nulls(3, pa.string())
    assert np.broadcast_to(HashedColumn(nothing).hashes(seed_array(9)), 3).tolist() == [9] * 3
    assert HashedColumn(nothing).hashes(np.array([1, 2, 3], np.uint64)).tolist() == [1, 2, 3]
    assert HashedColumn(pa.nulls(2, pa.int64())).hashes(np.array([1, 2], np.uint64)).tolist() == [1, 2]


def test_no_rows_have_no_hashes() -> None:
    for kind in (pa.string(), pa.int64(), pa.bool_(), pa.float64()):
        assert hashes_of(pa.array([], kind)) == []


def test_types_with_another_hash_in_spark_are_unknown() -> None:
    kinds = [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.decimal128(19, 2), pa.uint64()]
    assert not any(map(can_hash, [*kinds, pa.timestamp("ms"), pa.null(), pa.large_string()]))
