"""The table of a row event: what the binary log says of its columns, and what the catalog adds.

With `binlog_row_metadata=FULL` the log has the names, and the catalog only adds what the log does not know, such as
that a text is JSON. Without it, the names are those of the catalog: they are used only if the types in the log are
those of the catalog's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.cdc.change import Table
from headrace.cdc.errors import BadCapture
from headrace.cdc.mysql import tablemap as t
from headrace.cdc.mysql.catalog import CatalogTable
from headrace.cdc.mysql.charsets import BINARY, Charsets
from headrace.cdc.mysql.tablemap import MapColumn, TableDescription
from headrace.cdc.mysql.types import BYTES, GEOMETRIES, TEXTS, Spec, column
from headrace.cdc.mysql.values import Reader, reader

METADATA_HINT = (
    "SET GLOBAL binlog_row_metadata = FULL, so that the log has the names of columns; then"
    " `headrace cdc remove` and `add` the capture, which starts with a new snapshot"
)

_TYPES: dict[str, tuple[int, ...]] = {
    "tinyint": (t.TINY,),
    "smallint": (t.SHORT,),
    "mediumint": (t.INT24,),
    "int": (t.LONG,),
    "bigint": (t.LONGLONG,),
    "float": (t.FLOAT,),
    "double": (t.DOUBLE,),
    "decimal": (t.NEWDECIMAL,),
    "bit": (t.BIT,),
    "year": (t.YEAR,),
    "date": (t.DATE, t.NEWDATE),
    "time": (t.TIME2, t.TIME),
    "datetime": (t.DATETIME2, t.DATETIME),
    "timestamp": (t.TIMESTAMP2, t.TIMESTAMP),
    "char": (t.STRING,),
    "binary": (t.STRING,),
    "uuid": (t.STRING,),
    "inet4": (t.STRING,),
    "inet6": (t.STRING,),
    "varchar": (t.VARCHAR, t.VAR_STRING),
    "varbinary": (t.VARCHAR, t.VAR_STRING),
    "enum": (t.ENUM,),
    "set": (t.SET,),
    "json": (t.JSON,),
    "vector": (t.VECTOR, t.VARCHAR),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), (t.BLOB,)),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), (t.BLOB,)),
    **dict.fromkeys(GEOMETRIES, (t.GEOMETRY,)),
}
# The type of a column that the catalog does not have any more.
_GENERIC = {
    t.TINY: "tinyint", t.SHORT: "smallint", t.INT24: "mediumint", t.LONG: "int", t.LONGLONG: "bigint",
    t.FLOAT: "float", t.DOUBLE: "double", t.NEWDECIMAL: "decimal", t.BIT: "bit", t.YEAR: "year", t.DATE: "date",
    t.NEWDATE: "date", t.TIME: "time", t.TIME2: "time", t.DATETIME: "datetime", t.DATETIME2: "datetime",
    t.TIMESTAMP: "timestamp", t.TIMESTAMP2: "timestamp", t.ENUM: "enum", t.SET: "set", t.JSON: "json",
    t.GEOMETRY: "geometry", t.VECTOR: "vector",
}  # fmt: skip
_GENERIC_TEXT = {t.STRING: ("char", "binary"), t.BLOB: ("longtext", "longblob")}


class Described(Struct, frozen=True, kw_only=True):
    table: Table
    names: tuple[str, ...]
    readers: tuple[Reader, ...]
    source: dict[str, Any]
    """fields of `source` in the envelope"""

    def is_key_changed(self, before: dict[str, Any], after: dict[str, Any]) -> bool:
        return any(before[name] != after[name] for name in self.table.key)


def table_of(path: tuple[str, str], specs: Sequence[Spec], key: tuple[str, ...]) -> Table:
    return Table(path=path, columns=tuple(column(spec) for spec in specs), key=key)


def describe(logged: TableDescription, known: CatalogTable | None, charsets: Charsets) -> Described | None:
    """None if the table cannot be captured: it has no primary key, or was dropped and the log has no names."""
    if logged.key is not None:
        specs = [_named(each, known, charsets) for each in logged.columns]
        key = tuple(specs[number].name for number in logged.key)
    elif known is None:
        return None
    else:
        specs = _matched(logged, known, charsets)
        key = known.key
    if not key:
        return None
    readers = []
    for spec, each in zip(specs, logged.columns, strict=True):
        decode = charsets.decoder(spec.charset or "utf8mb4")
        found = reader(spec, each.type, each.metadata, decode)
        if found is None:
            raise BadCapture(
                f"column {spec.name} of table {'.'.join(logged.path)} has a format that cannot be read"
                f" (type {each.type} of the binary log)",
                hint="store it uncompressed and in the current format: ALTER TABLE … FORCE",
            )
        readers.append(found)
    return Described(
        table=table_of(logged.path, specs, key),
        names=tuple(spec.name for spec in specs),
        readers=tuple(readers),
        source={"db": logged.database, "table": logged.table},
    )


def _named(logged: MapColumn, known: CatalogTable | None, charsets: Charsets) -> Spec:
    assert logged.name is not None
    for spec in known.columns if known is not None else ():
        if spec.name == logged.name and is_same_type(spec, logged):
            return _with_log(spec, logged, charsets)
    charset = None if logged.collation is None else charsets.of_collation(logged.collation)
    is_binary = charset in (None, BINARY)
    texts = _GENERIC_TEXT.get(logged.type, ("varchar", "varbinary"))
    generic = Spec(name=logged.name, type=_GENERIC.get(logged.type, texts[is_binary]))
    if generic.type == "bit":
        generic = replace(generic, length=logged.metadata // 256 * 8 + logged.metadata % 256)
    return _with_log(replace(generic, charset=None if is_binary else charset), logged, charsets)


def _with_log(spec: Spec, logged: MapColumn, charsets: Charsets) -> Spec:
    """What the log knows is true for the event; the catalog is that of now."""
    fields: dict[str, Any] = {"optional": logged.optional}
    if logged.is_unsigned is not None:
        fields["is_unsigned"] = logged.is_unsigned and spec.type != "year"
    if logged.collation is not None and spec.type in TEXTS:
        fields["charset"] = charsets.of_collation(logged.collation)
    if logged.values:
        charset = "utf8mb4" if logged.collation is None else charsets.of_collation(logged.collation)
        fields["values"] = tuple(map(charsets.decoder(charset), logged.values))
    return replace(spec, **fields)


def _matched(logged: TableDescription, known: CatalogTable, charsets: Charsets) -> list[Spec]:
    columns = known.columns
    if len(columns) != len(logged.columns) or not all(map(is_same_type, columns, logged.columns)):
        raise BadCapture(
            f"table {known.label} was altered after a change that is still to be captured, and the names of its"
            " columns at that time are unknown",
            hint=METADATA_HINT,
        )
    return [_with_log(spec, each, charsets) for spec, each in zip(columns, logged.columns, strict=True)]


def is_same_type(spec: Spec, logged: MapColumn) -> bool:
    """Whether a column of the catalog is stored as the log has it."""
    if logged.type not in _TYPES.get(spec.type, ()):
        return False
    if spec.type == "decimal":
        return logged.metadata == spec.precision * 256 + spec.scale
    if spec.type == "bit":
        return logged.metadata // 256 * 8 + logged.metadata % 256 == spec.length
    if logged.type in (t.TIME2, t.DATETIME2, t.TIMESTAMP2):
        return logged.metadata == spec.scale
    if spec.type in ("varchar", "varbinary", "char", "binary"):
        return logged.metadata == spec.length
    if logged.collation is not None and logged.type == t.BLOB:
        return (spec.type in BYTES) == (logged.collation == _BINARY_COLLATION)
    return True


_BINARY_COLLATION = 63
