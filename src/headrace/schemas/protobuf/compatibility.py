"""Whether data of a writer's Protobuf schema can be read with a reader's schema: by field numbers and wire types.

Unknown fields and missing ones are normal, so fields may be added and removed; what a number means may not change.
Types are found by their full names. The rules are those of Confluent's registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from headrace.schemas.incompatibility import Incompatibility
from headrace.schemas.protobuf.parsing import ProtobufSchema

_WIRE_GROUPS = (
    frozenset(
        {
            FieldDescriptorProto.TYPE_INT32,
            FieldDescriptorProto.TYPE_INT64,
            FieldDescriptorProto.TYPE_UINT32,
            FieldDescriptorProto.TYPE_UINT64,
            FieldDescriptorProto.TYPE_BOOL,
            FieldDescriptorProto.TYPE_ENUM,
        }
    ),
    frozenset({FieldDescriptorProto.TYPE_SINT32, FieldDescriptorProto.TYPE_SINT64}),
    frozenset({FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES}),
    frozenset({FieldDescriptorProto.TYPE_FIXED32, FieldDescriptorProto.TYPE_SFIXED32}),
    frozenset({FieldDescriptorProto.TYPE_FIXED64, FieldDescriptorProto.TYPE_SFIXED64}),
)
"""Types that are read as each other; a value that does not fit is truncated."""

_MESSAGES = frozenset({FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_GROUP})
_NOT_PACKED = frozenset(
    {
        FieldDescriptorProto.TYPE_STRING,
        FieldDescriptorProto.TYPE_BYTES,
        FieldDescriptorProto.TYPE_MESSAGE,
        FieldDescriptorProto.TYPE_GROUP,
    }
)
"""The last one of a repeated field is read as a single one, and one as a list of one."""

_Found = list[Incompatibility]


def incompatibilities_of_protobuf(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Incompatibility]:
    return list(_Comparison(reader, writer).compare())


class _Comparison:
    def __init__(self, reader: ProtobufSchema, writer: ProtobufSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._read = dict(_messages(reader))
        self._written = dict(_messages(writer))
        self._pending = [name for name, _ in _messages_of(writer.file)]
        self._seen = set(self._pending)

    def compare(self) -> Iterator[Incompatibility]:
        before, after = self._writer.file.package, self._reader.file.package
        if before != after:
            yield _reason("PACKAGE_CHANGED", "#/", f"the package {before!r} is {after!r} in the reader")
            return
        while self._pending:
            name = self._pending.pop(0)
            written, read = self._written[name], self._read.get(name)
            if read is None:
                yield _reason("MESSAGE_REMOVED", f"#/{name}", f"the reader has no message {name}")
            else:
                yield from self._compare_messages(read, written, f"#/{name}")

    def _compare_messages(
        self, read: DescriptorProto, written: DescriptorProto, path: str
    ) -> Iterator[Incompatibility]:
        by_number = {each.number: each for each in written.field}
        for field in read.field:
            old = by_number.pop(field.number, None)
            where = f"{path}/{field.number}"
            if old is not None:
                yield from self._compare_fields(field, old, where)
            elif field.label == FieldDescriptorProto.LABEL_REQUIRED:
                yield _reason("REQUIRED_FIELD_ADDED", where, f"the writer has no required field {field.name}")
        for old in by_number.values():
            yield from _removed(old, written, f"{path}/{old.number}")
        yield from _moved_to_oneof(read, written, path)

    def _compare_fields(
        self, read: FieldDescriptorProto, written: FieldDescriptorProto, path: str
    ) -> Iterator[Incompatibility]:
        names = f"{_kind(written)} of the writer is {_kind(read)} in the reader"
        if read.type == written.type:
            if read.type_name != written.type_name:
                yield _reason("FIELD_NAMED_TYPE_CHANGED", path, names)
            self._follow(written)
        elif read.type in _MESSAGES or written.type in _MESSAGES:
            yield _reason("FIELD_KIND_CHANGED", path, names)
        elif not any(read.type in group and written.type in group for group in _WIRE_GROUPS):
            yield _reason("FIELD_SCALAR_KIND_CHANGED", path, names)
        is_list_changed = (read.label == FieldDescriptorProto.LABEL_REPEATED) != (
            written.label == FieldDescriptorProto.LABEL_REPEATED
        )
        if is_list_changed and written.type not in _NOT_PACKED:
            yield _reason(
                "FIELD_NUMERIC_LABEL_CHANGED", path, "a list of numbers is not read as a single one"
            )
        if (
            read.label == FieldDescriptorProto.LABEL_REQUIRED
            and written.label != FieldDescriptorProto.LABEL_REQUIRED
        ):
            yield _reason("REQUIRED_FIELD_ADDED", path, f"the writer may omit {read.name}")

    def _follow(self, field: FieldDescriptorProto) -> None:
        """Compare types of imported files too, if they are used."""
        name = field.type_name.lstrip(".")
        if name in self._written and name not in self._seen:
            self._seen.add(name)
            self._pending.append(name)


def _removed(field: FieldDescriptorProto, message: DescriptorProto, path: str) -> Iterator[Incompatibility]:
    if field.label == FieldDescriptorProto.LABEL_REQUIRED:
        yield _reason("REQUIRED_FIELD_REMOVED", path, f"the reader has no required field {field.name}")
    elif oneof := _oneof_name(field, message):
        yield _reason("ONEOF_FIELD_REMOVED", path, f"the reader has no field {field.name} in {oneof}")


def _moved_to_oneof(read: DescriptorProto, written: DescriptorProto, path: str) -> Iterator[Incompatibility]:
    """Of several fields that a writer may have set at once, a reader would keep the last one."""
    oneofs = {each.number: _oneof_name(each, written) for each in written.field}
    moved: dict[str, set[str]] = {}
    for field in read.field:
        name = _oneof_name(field, read)
        if name and field.number in oneofs:
            before = oneofs[field.number] or f"field {field.number}"
            moved.setdefault(name, set()).add(before)
    for name, sources in moved.items():
        if len(sources) > 1:
            yield _reason(
                "MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}", "the writer may have set several"
            )


def _oneof_name(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return str(message.oneof_decl[field.oneof_index].name)


def _kind(field: FieldDescriptorProto) -> str:
    name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"{name} {field.type_name.lstrip('.')}" if field.type_name else name


def _messages(schema: ProtobufSchema) -> Iterable[tuple[str, DescriptorProto]]:
    for file in (*schema.imported, schema.file):
        yield from _messages_of(file)


def _messages_of(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    pending = [(file.package, each) for each in file.message_type]
    while pending:
        space, message = pending.pop(0)
        name = f"{space}.{message.name}" if space else message.name
        yield name, message
        pending += [(name, each) for each in message.nested_type]


def _reason(kind: str, path: str, detail: str) -> Incompatibility:
    return Incompatibility(kind=kind, path=path, detail=detail)
