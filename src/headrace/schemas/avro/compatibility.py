"""Whether data of a writer's schema can be read with a reader's schema: Avro's schema resolution, decided beforehand.

Every value that the writer's schema allows must resolve. So each branch of the writer's union needs a branch of the
reader, and each symbol of an enum a symbol or a default. Logical types do not matter. Names are compared without
their namespaces, as the specification has it, or through the reader's aliases.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from headrace.schemas.avro.types import (
    Array,
    AvroSchema,
    Definition,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Type,
    Union,
    unqualified,
)
from headrace.schemas.incompatibility import Incompatibility

PROMOTIONS = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""What the data of a type may be read as."""

REASONS_MAX = 50
"""Of a pair of named types. A type that is used a thousand times would have its reasons a thousand times."""

COMPARISONS_MAX = 50_000
"""Of pairs of types. Unions without names in common have a product of branches."""

_Resolved = Primitive | Array | Map | Union | Definition
_Found = list[Incompatibility]


def incompatibilities_of_avro(reader: AvroSchema, writer: AvroSchema) -> list[Incompatibility]:
    try:
        return _Comparison(reader, writer).compare(reader.root, writer.root, "")
    except _TooComplex:
        detail = f"there are more than {COMPARISONS_MAX:,} pairs of types to compare"
        return [Incompatibility(kind="TOO_COMPLEX", path="/", detail=detail)]


class _TooComplex(Exception):
    pass


class _Comparison:
    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._compatible: dict[tuple[str, str], None] = {}
        """Pairs of named types, in the order in which they were compared. A pair that is being compared counts as
        compatible within itself."""
        self._failed: dict[tuple[str, str], _Found] = {}
        self._branches_by_name: dict[int, dict[str, tuple[_Resolved, int]]] = {}
        """Of the unions of the reader, by their identity."""
        self._count = 0

    def compare(self, reader_type: Type, writer_type: Type, path: str) -> _Found:
        self._count += 1
        if self._count > COMPARISONS_MAX:
            raise _TooComplex
        reader, writer = self._reader.resolve(reader_type), self._writer.resolve(writer_type)
        if isinstance(writer, Union):
            return [each for branch in writer.branches for each in self.compare(reader, branch, path)]
        if isinstance(reader, Union):
            return self._compare_branches(reader, writer, path)
        match reader, writer:
            case Primitive(), Primitive() if _is_readable(reader.name, writer.name):
                return []
            case Array(), Array():
                return self.compare(reader.items, writer.items, f"{path}/items")
            case Map(), Map():
                return self.compare(reader.values, writer.values, f"{path}/values")
        if isinstance(reader, Definition) and isinstance(writer, Definition) and type(reader) is type(writer):
            return self._compare_named(reader, writer, path)
        detail = f"reader type: {_kind(reader)} not compatible with writer type: {_kind(writer)}"
        return [Incompatibility(kind="TYPE_MISMATCH", path=path or "/", detail=detail)]

    def _compare_branches(self, reader: Union, writer: _Resolved, path: str) -> _Found:
        # Resolution takes a branch with the same full name before one that only has the same last part.
        same = self._branch_of(reader, writer.name) if isinstance(writer, Definition) else None
        found: _Found = []
        branches = [same] if same else [(each, n) for n, each in enumerate(reader.branches)]
        for branch, number in branches:
            found = self.compare(branch, writer, f"{path}/{number}")
            if not found:
                return []
        if same:
            return found
        name = writer.name if isinstance(writer, Definition) else _kind(writer)
        detail = f"reader union lacking writer type: {name}"
        return [Incompatibility(kind="MISSING_UNION_BRANCH", path=path or "/", detail=detail)]

    def _branch_of(self, union: Union, name: str) -> tuple[Type, int] | None:
        known = self._branches_by_name.get(id(union))
        if known is None:
            resolved = [(self._reader.resolve(each), n) for n, each in enumerate(union.branches)]
            known = {each.name: (each, n) for each, n in resolved if isinstance(each, Definition)}
            self._branches_by_name[id(union)] = known
        return known.get(name)

    def _compare_named(self, reader: Definition, writer: Definition, path: str) -> _Found:
        pair = (reader.name, writer.name)
        if pair in self._compatible:
            return []
        if pair in self._failed:
            return self._failed[pair]
        known = len(self._compatible)
        self._compatible[pair] = None
        found = [*_name_mismatch(reader, writer, path), *self._compare_definitions(reader, writer, path)]
        if found:
            # What was compatible on the assumption that this pair is has to be compared again.
            while len(self._compatible) > known:
                self._compatible.popitem()
            self._failed[pair] = found[:REASONS_MAX]
        return found[:REASONS_MAX]

    def _compare_definitions(self, reader: Definition, writer: Definition, path: str) -> _Found:
        if isinstance(reader, Record) and isinstance(writer, Record):
            return self._compare_records(reader, writer, path)
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            return _missing_symbols(reader, writer, path)
        assert isinstance(reader, Fixed)
        assert isinstance(writer, Fixed)
        if reader.size == writer.size:
            return []
        detail = f"expected: {reader.size}, found: {writer.size}"
        return [Incompatibility(kind="FIXED_SIZE_MISMATCH", path=f"{path}/size", detail=detail)]

    def _compare_records(self, reader: Record, writer: Record, path: str) -> _Found:
        by_name = {each.name: each for each in writer.fields}
        found: _Found = []
        for number, field in enumerate(reader.fields):
            source = _source(field, by_name)
            if source is not None:
                found += self.compare(field.type, source.type, f"{path}/fields/{number}/type")
            elif field.default is UNSET:
                found.append(
                    Incompatibility(
                        kind="READER_FIELD_MISSING_DEFAULT_VALUE",
                        path=f"{path}/fields/{number}",
                        detail=f"the writer has no field {field.name}, and the reader no default for it",
                    )
                )
        return found


def _source(field: Field, by_name: dict[str, Field]) -> Field | None:
    return next((by_name[name] for name in (field.name, *field.aliases) if name in by_name), None)


def _is_readable(reader: str, writer: str) -> bool:
    return reader == writer or reader in PROMOTIONS.get(writer, ())


def _name_mismatch(reader: Definition, writer: Definition, path: str) -> Iterable[Incompatibility]:
    if unqualified(reader.name) != unqualified(writer.name) and writer.name not in reader.aliases:
        yield Incompatibility(kind="NAME_MISMATCH", path=f"{path}/name", detail=f"expected: {writer.name}")


def _missing_symbols(reader: Enum, writer: Enum, path: str) -> _Found:
    known = set(reader.symbols)
    missing = [each for each in writer.symbols if each not in known]
    if not missing or reader.default is not None:
        return []
    detail = f"the reader has no symbol {', '.join(missing)}, and no default"
    return [Incompatibility(kind="MISSING_ENUM_SYMBOLS", path=f"{path}/symbols", detail=detail)]


def _kind(type_: _Resolved) -> str:
    return type_.name if isinstance(type_, Primitive) else type(type_).__name__.lower()
