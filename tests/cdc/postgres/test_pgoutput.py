from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cdc.postgres.pgoutput import (
    UNCHANGED,
    BadMessage,
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Type,
    Update,
    decode,
)
from tests.cdc.postgres.messages import row

RELATION = struct.pack(">I", 7)
COLUMNS = b"\x01id\x00" + struct.pack(">Ii", 23, -1) + b"\x00n\x00" + struct.pack(">Ii", 1700, 655366)
MESSAGES: list[tuple[bytes, Message]] = [
    (b"B" + struct.pack(">QqI", 5, 6, 7), Begin(commit_lsn=5, committed_us=6, xid=7)),
    (b"C" + struct.pack(">BQQq", 0, 5, 9, 6), Commit(commit_lsn=5, end_lsn=9, committed_us=6)),
    (b"O" + struct.pack(">Q", 5) + b"far\x00", Origin(lsn=5, name="far")),
    (
        b"R" + RELATION + b"public\x00users\x00d" + struct.pack(">H", 2) + COLUMNS,
        Relation(
            oid=7,
            schema="public",
            name="users",
            replica_identity="d",
            columns=(
                RelationColumn(name="id", type_oid=23, type_modifier=-1, is_key=True),
                RelationColumn(name="n", type_oid=1700, type_modifier=655366, is_key=False),
            ),
        ),
    ),
    (b"Y" + RELATION + b"public\x00mood\x00", Type(oid=7, schema="public", name="mood")),
    (b"I" + RELATION + b"N" + row("1", "æ", None), Insert(relation=7, new=["1", "æ", None])),
    (
        b"U" + RELATION + b"N" + row("1", "u"),
        Update(relation=7, old=None, is_old_whole=False, new=["1", UNCHANGED]),
    ),
    (
        b"U" + RELATION + b"K" + row("1", None) + b"N" + row("2", "x"),
        Update(relation=7, old=["1", None], is_old_whole=False, new=["2", "x"]),
    ),
    (
        b"U" + RELATION + b"O" + row("1", "w") + b"N" + row("1", "x"),
        Update(relation=7, old=["1", "w"], is_old_whole=True, new=["1", "x"]),
    ),
    (b"D" + RELATION + b"K" + row("1", None), Delete(relation=7, old=["1", None], is_old_whole=False)),
    (b"D" + RELATION + b"O" + row("1", "w"), Delete(relation=7, old=["1", "w"], is_old_whole=True)),
    (b"T" + struct.pack(">IBII", 2, 3, 7, 8), Truncate(relations=(7, 8))),
    (
        b"M" + struct.pack(">BQ", 1, 5) + b"headrace\x00" + struct.pack(">I", 2) + b"hi",
        LogicalMessage(is_transactional=True, lsn=5, prefix="headrace", content=b"hi"),
    ),
]


@pytest.mark.parametrize(("data", "message"), MESSAGES, ids=lambda value: type(value).__name__)
def test_every_message_is_decoded_wherever_it_begins(data: bytes, message: Message) -> None:
    assert decode(data) == message
    assert decode(b"header" + data, 6) == message


@pytest.mark.parametrize("data", [data for data, _ in MESSAGES])
def test_message_that_ends_early_or_late_is_rejected(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(BadMessage):
            decode(data[:end])
    with pytest.raises(BadMessage):
        decode(data + b"\x00")


@pytest.mark.fuzz
@given(st.sampled_from([data for data, _ in MESSAGES]), st.integers(0, 60), st.integers(0, 255))
def test_damaged_message_gives_a_message_or_an_error_of_its_own(data: bytes, at: int, byte: int) -> None:
    damaged = bytearray(data)
    damaged[at % len(data)] = byte
    with suppress(BadMessage):
        decode(bytes(damaged))


def test_bytes_that_are_not_utf_8_do_not_stop_the_stream() -> None:
    data = b"I" + RELATION + b"N" + struct.pack(">H", 1) + b"t" + struct.pack(">I", 1) + b"\xff"
    assert decode(data) == Insert(relation=7, new=["\ufffd"])
