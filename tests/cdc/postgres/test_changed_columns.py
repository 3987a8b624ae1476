"""Changes by whole columns are those that `Stream` gives one by one, to the byte."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cdc.change import ChangedRows
from headrace.cdc.change_records import records_by_table
from headrace.cdc.envelope import Envelope, Record
from headrace.cdc.postgres.changed_columns import changed_rows
from headrace.cdc.postgres.pgoutput import Commit, Relation, RelationColumn, decode
from headrace.cdc.postgres.relation import Described, describe_relation
from headrace.cdc.postgres.replication import DATA_OFFSET, Data, parse
from headrace.cdc.postgres.stream import Incomplete, Stream
from headrace.cdc.postgres.types import TypeInfo
from headrace.cdc.transactions import Transactions
from tests.cdc.postgres.messages import begin, change, commit, data, row

TYPES = {
    oid: TypeInfo(oid=oid, name=name)
    for oid, name in {
        16: "bool",
        17: "bytea",
        20: "int8",
        25: "text",
        701: "float8",
        1114: "timestamp",
    }.items()
}
MARKS = "marks"
NOW_MS = 5_000
OTHER = 9
"""the table that is not captured"""


def relation(oid: int, *columns: tuple[str, int, bool]) -> Relation:
    return Relation(
        oid=oid,
        schema="public",
        name=f"t{oid}",
        replica_identity="d",
        columns=tuple(
            RelationColumn(name=name, type_oid=type_oid, type_modifier=-1, is_key=is_key)
            for name, type_oid, is_key in columns
        ),
    )


TABLES = {
    7: relation(7, ("name", 25, False), ("id", 20, True), ("at", 1114, False), ("raw", 17, False)),
    8: relation(8, ("id", 20, True), ("part", 25, True), ("ok", 16, False), ("weight", 701, False)),
    OTHER: relation(OTHER, ("id", 20, True)),
}
VALUES: dict[int, st.SearchStrategy[str]] = {
    16: st.sampled_from("tf"),
    17: st.binary(max_size=3).map(lambda found: "\\x" + found.hex()),
    20: st.integers(-(2**63), 2**63 - 1).map(str),
    25: st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4).filter(
        lambda text: text != "u"  # `row` gives it a meaning
    ),
    701: st.sampled_from(["1", "-0.5", "1e+20", "NaN", "Infinity", "12345.678"]),
    1114: st.sampled_from(["2026-11-18 10:00:00", "2026-11-18 10:00:00.123456", "infinity"]),
}


class Written:
    """The records of all topics, and the transaction that is open between two blocks."""

    def __init__(self) -> None:
        self.topics: defaultdict[str, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
        self.envelope = Envelope("shop", "postgresql")
        self.transactions = Transactions(self.envelope, None, lambda record: self.write(MARKS, record))

    def write(self, topic: str, record: Record) -> None:
        self.topics[topic].append((record.key, record.value))

    def one_by_one(self, stream: Stream, messages: Sequence[bytes]) -> None:
        for message in messages:
            found = parse(message)
            assert isinstance(found, Data)
            content = decode(found.content, DATA_OFFSET)
            if isinstance(content, Commit):
                self.transactions.end(stream.commit(content))
                continue
            for each in stream.apply(found.lsn, content):
                single = each.change if isinstance(each, Incomplete) else each
                place = self.transactions.place(single)
                for record in self.envelope.records(single, NOW_MS, place):
                    self.write(single.table.name, record)

    def block(self, rows: ChangedRows) -> None:
        orders = self.transactions.places(rows)
        for found in records_by_table(rows, orders, self.envelope, NOW_MS):
            for key, value in zip(*found.with_tombstones(), strict=True):
                self.write(found.table.name, Record(key, value))


def described(found: Relation, previous: Described | None) -> Described | None:
    return (
        None if found.oid == OTHER else describe_relation("shop", found, TYPES, known=None, previous=previous)
    )


def new_stream() -> Stream:
    stream = Stream({"lsn": 100}, described)
    for table in TABLES.values():
        stream.apply(100, table)
    return stream


@st.composite
def changes(draw: st.DrawFn) -> bytes:
    oid = draw(st.sampled_from(sorted(TABLES)))
    columns = TABLES[oid].columns
    values = [
        draw(VALUES[each.type_oid] if each.is_key else st.none() | VALUES[each.type_oid]) for each in columns
    ]
    keys = [value if column.is_key else None for value, column in zip(values, columns, strict=True)]
    others = [
        value if column.is_key else draw(st.none() | VALUES[column.type_oid])
        for value, column in zip(values, columns, strict=True)
    ]
    return draw(
        st.sampled_from(
            [
                change(b"I", oid, b"N" + row(*values)),
                change(b"U", oid, b"N" + row(*values)),
                change(b"U", oid, b"O" + row(*others), b"N" + row(*values)),
                change(b"D", oid, b"K" + row(*keys)),
                change(b"D", oid, b"O" + row(*values)),
            ]
        )
    )


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    messages: list[bytes] = []
    for number, transaction in enumerate(
        draw(st.lists(st.lists(changes(), max_size=5), min_size=1, max_size=6))
    ):
        contents = [
            begin(200 + number, draw(st.integers(0, 2**40)), 50 + number),
            *transaction,
            commit(200 + number, 201 + number),
        ]
        messages += [data(300 + len(messages), content) for content in contents]
    return messages


@settings(max_examples=300)
@given(messages=streams(), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_records_and_positions_are_those_of_single_changes(messages: list[bytes], cuts: list[int]) -> None:
    singles, blocks = Written(), Written()
    stream, by_columns = new_stream(), new_stream()
    bounds = [0, *sorted(min(cut, len(messages)) for cut in cuts), len(messages)]
    for start, end in itertools.pairwise(bounds):
        if start == end:
            continue
        singles.one_by_one(stream, messages[start:end])
        rows = changed_rows(by_columns, messages[start:end])
        assert rows is not None
        blocks.block(rows)
        assert blocks.topics == singles.topics
        assert rows.position == by_columns.position() == stream.position()
        assert blocks.transactions.open == singles.transactions.open


BEGIN, COMMIT = data(1, begin(200, 0, 50)), data(9, commit(200, 201))
UNKNOWN = b"\xff"
RARE = {
    "a changed key": change(b"U", 7, b"K" + row(None, "1", None, None), b"N" + row("a", "2", None, None)),
    "a changed key of a whole row": change(
        b"U", 7, b"O" + row("a", "1", None, None), b"N" + row("a", "2", None, None)
    ),
    "a large value that was not changed": change(b"U", 7, b"N" + row("u", "1", None, None)),
    "a truncate": b"T\0\0\0\1\0\0\0\0\7",
    "a table that is not known": change(b"I", 70, b"N" + row("1")),
    "no Unicode": change(b"I", 7, b"N" + row("#", "1", None, None)).replace(b"#", UNKNOWN),
    "columns that are missing": change(b"I", 7, b"N" + row("1")),
    "more bytes than a row has": change(b"I", 7, b"N" + row("a", "1", None, None)) + b"x",
}


@pytest.mark.parametrize("content", RARE.values(), ids=list(RARE))
def test_block_with_a_rare_message_is_left_to_the_stream(content: bytes) -> None:
    stream = new_stream()
    usual = data(2, change(b"I", 8, b"N" + row("1", "a", None, None)))
    assert changed_rows(stream, [BEGIN, usual, data(3, content), COMMIT]) is None
    assert stream.position() == {"lsn": 100}
    found = changed_rows(stream, [BEGIN, usual, COMMIT])
    assert found is not None
    assert (found.count, found.position) == (1, {"lsn": 201})


def test_changes_outside_of_a_transaction_are_left_to_the_stream() -> None:
    assert changed_rows(new_stream(), [data(2, change(b"I", 8, b"N" + row("1", "a", None, None)))]) is None


def test_changes_that_were_yielded_before_are_left_to_the_stream() -> None:
    stream = Stream({"lsn": 100, "commit": 200, "done": 1}, described)
    assert changed_rows(stream, [BEGIN, COMMIT]) is None
