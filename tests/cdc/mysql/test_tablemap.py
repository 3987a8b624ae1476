"""The description of a table in the log, with all its metadata and without."""

from __future__ import annotations

import pytest

from headrace.cdc.mysql import tablemap as t
from headrace.cdc.mysql.tablemap import MapColumn, parse, parse_path


def described(columns: bytes, metadata: bytes, nulls: bytes, fields: bytes = b"") -> bytes:
    names = b"\x03crm\x00\x05notes\x00"
    return names + bytes([len(columns)]) + columns + bytes([len(metadata)]) + metadata + nulls + fields


def field(kind: int, content: bytes) -> bytes:
    return bytes([kind, len(content)]) + content


def test_names_are_read_without_the_rest() -> None:
    assert parse_path(described(b"", b"", b"")) == ("crm", "notes")


def test_types_are_known_without_metadata() -> None:
    columns = bytes([t.LONG, t.VARCHAR, t.NEWDECIMAL, t.STRING, t.STRING, t.BIT, t.DATETIME2])
    metadata = b"\x50\x00" + bytes([10, 3]) + bytes([t.ENUM, 1]) + b"\xce\xe8" + b"\x02\x01" + b"\x06"
    table = parse(described(columns, metadata, b"\x02"), is_mariadb=False)
    assert [(each.type, each.metadata) for each in table.columns] == [
        (t.LONG, 0),
        (t.VARCHAR, 80),
        (t.NEWDECIMAL, 10 * 256 + 3),
        (t.ENUM, 1),
        (t.STRING, 1000),  # a CHAR of more than 255 bytes
        (t.BIT, 1 * 256 + 2),
        (t.DATETIME2, 6),
    ]
    assert [each.optional for each in table.columns] == [False, True, False, False, False, False, False]
    assert table.key is None
    assert table.columns[0] == MapColumn(type=t.LONG, metadata=0, optional=False)


FIELDS = (
    field(1, b"\x80")  # the first number is unsigned
    + field(4, b"\x02id\x01a\x01g\x01b\x01e\x01s")
    + field(6, b"\x02\x01x\x01y")
    + field(5, b"\x01\x01p")
    + field(8, b"\x00")
    + field(10, b"\x21")
)
COLUMNS = bytes([t.LONG, t.VARCHAR, t.GEOMETRY, t.BLOB, t.STRING, t.STRING])
METADATA = b"\x50\x00" + b"\x04" + b"\x02" + bytes([t.ENUM, 1]) + bytes([t.SET, 1])


@pytest.mark.parametrize(("is_mariadb", "index"), [(True, 2), (False, 1)])
def test_metadata_has_names_signs_values_and_character_sets(is_mariadb: bool, index: int) -> None:
    """To MariaDB a geometry is a column with a character set."""
    charsets = field(2, bytes([8, index, 63]))
    table = parse(described(COLUMNS, METADATA, b"\x3e", FIELDS + charsets), is_mariadb=is_mariadb)
    assert [each.name for each in table.columns] == ["id", "a", "g", "b", "e", "s"]
    assert table.key == (0,)
    assert table.columns[0].is_unsigned
    assert [each.collation for each in table.columns] == [None, 8, 8 if is_mariadb else None, 63, 33, 33]
    assert [each.values for each in table.columns[4:]] == [(b"x", b"y"), (b"p",)]


def test_character_set_may_be_that_of_each_column() -> None:
    charsets = field(3, bytes([8, 63]))
    table = parse(described(COLUMNS, METADATA, b"\x3e", FIELDS + charsets), is_mariadb=False)
    assert [each.collation for each in table.columns] == [None, 8, None, 63, 33, 33]


def test_key_may_have_prefixes_of_columns() -> None:
    fields = field(4, b"\x02id\x01a") + field(9, b"\x01\x05\x00\x00")
    table = parse(described(bytes([t.LONG, t.VARCHAR]), b"\x50\x00", b"\0", fields), is_mariadb=True)
    assert table.key == (1, 0)


def test_table_without_a_key_has_none_of_its_columns() -> None:
    table = parse(described(bytes([t.LONG]), b"", b"\0", field(4, b"\x02id")), is_mariadb=True)
    assert table.key == ()
