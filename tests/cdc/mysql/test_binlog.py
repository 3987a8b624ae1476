"""Bytes of the binary log to messages. Those of MySQL are written here as its documentation has them."""

from __future__ import annotations

import struct
import zlib
from uuid import UUID

import pytest

from headrace.cdc.mysql.binlog import (
    FORMAT,
    GTID,
    HEADER,
    HEARTBEAT,
    MARIADB_GTID,
    QUERY,
    ROTATE,
    TABLE_MAP,
    XA_PREPARE,
    XID,
    Begin,
    Commit,
    CorruptEvent,
    Decoder,
    Heartbeat,
    Message,
    Other,
    Prepared,
    Query,
    Rotate,
    Rows,
    TableMap,
    Unreadable,
    length_encoded,
)

SID = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")


def packed(kind: int, content: bytes, *, end: int = 1_000, has_checksum: bool = False) -> bytes:
    size = HEADER.size + len(content) + 4 * has_checksum
    event = HEADER.pack(1_700_000_000, kind, 7, size, end, 0) + content
    return event + struct.pack("<I", zlib.crc32(event)) if has_checksum else event


def message(kind: int, content: bytes) -> Message:
    return Decoder().decode(packed(kind, content)).message


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        (XID, bytes(8), Commit()),
        (XA_PREPARE, bytes(13), Prepared()),
        (ROTATE, struct.pack("<Q", 4) + b"bin.000002", Rotate("bin.000002", 4)),
        (HEARTBEAT, b"bin.000002", Heartbeat("bin.000002")),
        (GTID, b"\0" + SID.bytes + struct.pack("<Q", 23), Begin(f"{SID}:23", is_standalone=False)),
        (34, b"\0" + bytes(24), Begin("", is_standalone=False)),
        (MARIADB_GTID, struct.pack("<QIB", 23, 5, 1), Begin("5-7-23", is_standalone=True)),
        (MARIADB_GTID, struct.pack("<QIB", 23, 5, 64), Begin("5-7-23", is_standalone=False, is_xa=True)),
        (TABLE_MAP, (9).to_bytes(6, "little") + b"\1\0rest", TableMap(9, b"rest")),
        (161, b"anything", Other()),
        (250, b"an event of a later server", Other()),
    ],
)
def test_event_is_decoded(kind: int, content: bytes, expected: Message) -> None:
    assert message(kind, content) == expected


@pytest.mark.parametrize("kind", [18, 26, 39, 40, 165, 166, 171])
def test_event_that_may_hold_changes_is_never_skipped(kind: int) -> None:
    assert isinstance(message(kind, b""), Unreadable)


def test_statement_has_its_database_and_the_collation_of_its_client() -> None:
    status = (
        b"\x00" + bytes(4) + b"\x01" + bytes(8) + b"\x06\x03std" + b"\x04" + struct.pack("<HHH", 8, 8, 33)
    )
    head = struct.pack("<IIBHH", 1, 0, 3, 0, len(status))
    assert message(QUERY, head + status + b"crm\0BEGIN") == Query("crm", b"BEGIN", 8)


def test_statement_of_which_the_variables_are_unknown_is_decoded() -> None:
    head = struct.pack("<IIBHH", 1, 0, 0, 0, 3)
    assert message(QUERY, head + b"\x63\0\0" + b"\0COMMIT") == Query("", b"COMMIT", None)


@pytest.mark.parametrize(("kind", "op"), [(23, "c"), (24, "u"), (25, "d")])
def test_rows_begin_with_the_bitmap_of_columns(kind: int, op: str) -> None:
    content = (9).to_bytes(6, "little") + b"\0\0" + b"\x02\xff rows"
    rows = message(kind, content)
    assert isinstance(rows, Rows)
    assert (rows.table_id, rows.op, rows.columns, rows.content[rows.at]) == (9, op, 2, 0xFF)


def test_rows_of_the_second_version_have_extra_data() -> None:
    content = (9).to_bytes(6, "little") + b"\0\0" + struct.pack("<H", 5) + b"xyz" + b"\x02\xff"
    rows = message(30, content)
    assert isinstance(rows, Rows)
    assert (rows.columns, rows.content[rows.at]) == (2, 0xFF)


def test_event_has_its_place_and_time() -> None:
    event = Decoder().decode(packed(XID, bytes(8), end=500))
    assert (event.at_s, event.server_id, event.start, event.end) == (1_700_000_000, 7, 473, 500)


def test_event_that_is_not_in_the_log_has_no_place() -> None:
    event = Decoder().decode(packed(ROTATE, struct.pack("<Q", 4) + b"bin.000002", end=0))
    assert (event.start, event.end) == (0, 0)


def test_checksum_is_removed_and_checked() -> None:
    decoder = Decoder()
    decoder.decode(packed(FORMAT, bytes(80) + b"\1", has_checksum=True))
    checked = packed(HEARTBEAT, b"bin.000002", has_checksum=True)
    assert decoder.decode(checked).message == Heartbeat("bin.000002")
    damaged = checked[:25] + b"!" + checked[26:]
    with pytest.raises(CorruptEvent):
        decoder.decode(damaged)


def test_file_without_checksums_is_read() -> None:
    decoder = Decoder()
    decoder.decode(packed(FORMAT, bytes(80) + b"\0", has_checksum=True))
    assert decoder.decode(packed(HEARTBEAT, b"bin.000002")).message == Heartbeat("bin.000002")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xfa", (250, 1)),
        (b"\xfc\xff\xff", (65535, 3)),
        (b"\xfd\1\0\1", (65537, 4)),
        (b"\xfe" + bytes(7) + b"\1", (1 << 56, 9)),
    ],
)
def test_length_has_one_to_nine_bytes(data: bytes, expected: tuple[int, int]) -> None:
    assert length_encoded(data, 0) == expected
