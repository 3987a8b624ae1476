"""Records of many rows at once are the same as those of single rows."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from headrace.cdc.change import Change, Column, Op, ReadRows, Table
from headrace.cdc.envelope import Envelope, Layout
from headrace.cdc.row_batches import LENGTHS_MAX, by_partition, encoded, murmur2
from headrace.records.record import walk_records

USERS = Table(
    path=("public", "users"),
    columns=(
        Column(name="name", type="string"),
        Column(name="tenant", type="int32"),
        Column(name="id", type="int64"),
    ),
    key=("id", "tenant"),
)


def rows(names: list[str | None]) -> ReadRows:
    return ReadRows(
        table=USERS,
        columns=[
            pa.array([json.dumps(name, ensure_ascii=False).encode() for name in names], pa.binary()),
            pa.array([b"7"] * len(names), pa.binary()),
            pa.array([b"%d" % number for number in range(len(names))], pa.binary()),
        ],
        count=len(names),
        committed_ms=1_000,
        source={"lsn": 5, "snapshot": True},
        position_after=lambda row: {"row": row},
    )


def keys_and_values(section: bytes, count: int) -> list[tuple[bytes | None, bytes]]:
    return [
        (span.key, section[span.value_start : span.value_start + span.value_bytes])
        for span in walk_records(section, count)
    ]


@pytest.mark.parametrize("schemas", [False, True])
def test_records_are_those_of_single_changes(schemas: bool) -> None:
    envelope = Envelope("shop", "postgresql", schemas=schemas)
    read = rows(["ada", None, "", "Ünï \u2028", "long " * LENGTHS_MAX])
    section = encoded(envelope.layout(read, 2_000), read.columns).to_pybytes()
    expected = [record for change in read.changes() for record in envelope.records(change, 2_000)]
    assert keys_and_values(section, read.count) == [(each.key, each.value) for each in expected]
    assert [span.offset_delta for span in walk_records(section, read.count)] == list(range(read.count))


def test_rows_stand_for_changes_with_their_positions() -> None:
    first, second = rows(["ada", None]).changes()
    assert isinstance(first, Change)
    assert (first.op, first.after, first.position) == (
        Op.READ,
        {"name": "ada", "tenant": 7, "id": 0},
        {"row": 0},
    )
    assert (second.after or {})["name"] is None
    assert rows(["ada", None]).position == {"row": 1}


def test_slice_of_columns_has_only_its_rows() -> None:
    read = rows([str(number) for number in range(10)])
    layout = Envelope("shop", "postgresql").layout(read, 1)
    part = [column[4:6] for column in read.columns]
    found = keys_and_values(encoded(layout, part).to_pybytes(), 2)
    assert [json.loads(key or b"")["id"] for key, _ in found] == [4, 5]


# From the tests of Kafka's client.
HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_hash_is_that_of_kafkas_clients() -> None:
    found = murmur2(pa.array(list(HASHES), pa.binary())).astype(np.int32)
    assert found.tolist() == list(HASHES.values())


def test_rows_of_a_key_have_the_partition_of_its_hash_and_keep_their_order() -> None:
    layout = Layout(key=(b"", b""), value=(b"", b""), key_columns=(0,))
    keys = pa.array([*HASHES, *HASHES], pa.binary())
    found = {partition: columns[0].to_pylist() for partition, columns in by_partition(layout, [keys], 3)}
    expected: dict[int, list[bytes]] = {}
    for key in [*HASHES, *HASHES]:
        expected.setdefault((HASHES[key] & 0x7FFFFFFF) % 3, []).append(key)
    assert found == expected


def test_rows_are_encoded_without_pandas() -> None:
    """pyarrow imports it for some calls. A capture has a bound of 200 MB, and pandas takes 40 of them."""
    program = """
import sys
from headrace.cdc.envelope import Layout
from headrace.cdc.postgres.json_columns import json_columns, text_columns
from headrace.cdc.row_batches import binary_array, by_partition, encoded

class Described:
    names = ("id", "text")
    conversions = {"id": int}

layout = Layout(key=(b"", b""), value=(b"", b",", b""), key_columns=(0,))
columns = json_columns(text_columns(b'1\\tx\\n2\\t\\\\N\\n3\\t"\\n', 2), Described)
for _, rows in by_partition(layout, columns, 2):
    assert encoded(layout, rows).size
assert encoded(layout, [binary_array([b"x" * 20_000]), binary_array([b"y"])]).size
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
