"""A descriptor -> text: for clients that register descriptors, and the normal form of a schema.

Options that extensions define are left out: a descriptor has them as bytes without names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

_KINDS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}
_LABELS = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional ",
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
}
_INDENT = "  "
RANGE_END = 2**29
"""Exclusive; written as `max`."""


def print_proto(file: FileDescriptorProto) -> str:
    return "\n".join(_file(file)) + "\n"


def default_json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _file(file: FileDescriptorProto) -> Iterator[str]:
    syntax = file.syntax or "proto2"
    yield f'edition = "{_edition(file)}";' if syntax == "editions" else f'syntax = "{syntax}";'
    if file.package:
        yield f"package {file.package};"
    for number, path in enumerate(file.dependency):
        kind = "public " if number in file.public_dependency else ""
        yield f'import {kind}"{path}";'
    yield from _options(file.options)
    is_proto2 = syntax == "proto2"
    for enum in file.enum_type:
        yield from _enum(enum)
    for message in file.message_type:
        yield from _message(message, is_proto2)
    yield from _extensions(file.extension, is_proto2)
    for service in file.service:
        yield from _service(service)


def _edition(file: FileDescriptorProto) -> str:
    return str(file.EDITION.Name(file.edition) if hasattr(file, "EDITION") else file.edition).removeprefix(
        "EDITION_"
    )


def _message(message: DescriptorProto, is_proto2: bool) -> Iterator[str]:
    yield f"message {message.name} {{"
    yield from _indented(_message_body(message, is_proto2))
    yield "}"


def _message_body(message: DescriptorProto, is_proto2: bool) -> Iterator[str]:
    yield from _options(message.options)
    for enum in message.enum_type:
        yield from _enum(enum)
    yield from _members(message, is_proto2)
    yield from _ranges(message)
    yield from _extensions(message.extension, is_proto2)


def _members(message: DescriptorProto, is_proto2: bool) -> Iterator[str]:
    """Fields and nested messages, each in their order: serializers name a nested message by its number. Maps and groups
    have nested messages too, which come where their fields are."""
    fields = list(message.field)
    of_fields = {
        _last(each.type_name)
        for each in fields
        if each.type == FieldDescriptorProto.TYPE_GROUP or _entry(each, message) is not None
    }
    written: set[int] = set()
    for nested in message.nested_type:
        if nested.name not in of_fields:
            yield from _message(nested, is_proto2)
            continue
        while fields:
            field = fields.pop(0)
            yield from _member(field, message, is_proto2, written)
            if _last(field.type_name) == nested.name:
                break
    for field in fields:
        yield from _member(field, message, is_proto2, written)


def _member(
    field: FieldDescriptorProto, message: DescriptorProto, is_proto2: bool, written: set[int]
) -> Iterator[str]:
    """A field; or all of its oneof, unless that was written."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        yield from _field(field, message, is_proto2)
    elif field.oneof_index not in written:
        written.add(field.oneof_index)
        yield from _oneof(message, field.oneof_index, is_proto2)


def _entry(field: FieldDescriptorProto, message: DescriptorProto | None) -> DescriptorProto | None:
    """The nested message of a map."""
    name = _last(field.type_name)
    nested = () if message is None else message.nested_type
    return next((each for each in nested if each.name == name and each.options.map_entry), None)


def _oneof(message: DescriptorProto, index: int, is_proto2: bool) -> Iterator[str]:
    oneof = message.oneof_decl[index]
    yield f"oneof {oneof.name} {{"
    yield from _indented(_options(oneof.options))
    for field in message.field:
        if field.HasField("oneof_index") and field.oneof_index == index and not field.proto3_optional:
            yield from _indented(_field(field, message, is_proto2))
    yield "}"


def _field(field: FieldDescriptorProto, message: DescriptorProto | None, is_proto2: bool) -> Iterator[str]:
    entry = _entry(field, message)
    if entry is not None:
        key, value = entry.field
        yield f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{_field_options(field)};"
        return
    label = _label(field, is_proto2)
    if field.type == FieldDescriptorProto.TYPE_GROUP and message is not None:
        group = next(each for each in message.nested_type if each.name == _last(field.type_name))
        yield f"{label}group {group.name} = {field.number}{_field_options(field)} {{"
        yield from _indented(_message_body(group, is_proto2))
        yield "}"
        return
    yield f"{label}{_type(field)} {field.name} = {field.number}{_field_options(field)};"


def _label(field: FieldDescriptorProto, is_proto2: bool) -> str:
    if field.label == FieldDescriptorProto.LABEL_REPEATED or field.proto3_optional:
        return _LABELS[field.label]
    if field.HasField("oneof_index") or not is_proto2:
        return ""
    return _LABELS[field.label]


def _type(field: FieldDescriptorProto) -> str:
    return str(field.type_name or _KINDS[field.type])


def _field_options(field: FieldDescriptorProto) -> str:
    found = []
    if field.HasField("default_value"):
        found.append(f"default = {_default(field)}")
    if field.json_name and field.json_name != default_json_name(field.name):
        found.append(f"json_name = {json.dumps(field.json_name)}")
    found += [f"{name} = {value}" for name, value in _option_pairs(field.options)]
    return f" [{', '.join(found)}]" if found else ""


def _default(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_STRING:
        return json.dumps(field.default_value, ensure_ascii=False)
    if field.type == FieldDescriptorProto.TYPE_BYTES:  # escaped already
        return f'"{field.default_value}"'
    return str(field.default_value)


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(_options(enum.options))
    for value in enum.value:
        options = ", ".join(f"{name} = {text}" for name, text in _option_pairs(value.options))
        yield f"{_INDENT}{value.name} = {value.number}{f' [{options}]' if options else ''};"
    for each in enum.reserved_range:  # inclusive, unlike those of messages
        yield f"{_INDENT}reserved {each.start} to {each.end};"
    for name in enum.reserved_name:
        yield f'{_INDENT}reserved "{name}";'
    yield "}"


def _ranges(message: DescriptorProto) -> Iterator[str]:
    for each in message.reserved_range:
        yield f"reserved {each.start} to {_range_end(each.end)};"
    for name in message.reserved_name:
        yield f'reserved "{name}";'
    for extension in message.extension_range:
        yield f"extensions {extension.start} to {_range_end(extension.end)};"


def _range_end(end: int) -> str:
    return "max" if end >= RANGE_END else str(end - 1)


def _extensions(fields: Iterable[FieldDescriptorProto], is_proto2: bool) -> Iterator[str]:
    for field in fields:
        yield f"extend {field.extendee} {{"
        yield from _indented(_field(field, None, is_proto2))
        yield "}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _indented(_options(service.options))
    for method in service.method:
        request = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        response = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        head = f"{_INDENT}rpc {method.name} ({request}) returns ({response})"
        options = [*_indented(_indented(_options(method.options)))]
        yield from [f"{head} {{", *options, f"{_INDENT}}}"] if options else [f"{head};"]
    yield "}"


def _options(options: Any) -> Iterator[str]:
    for name, value in _option_pairs(options):
        yield f"option {name} = {value};"


def _option_pairs(options: Any) -> Iterator[tuple[str, str]]:
    for field, value in options.ListFields():
        if field.name in ("map_entry", "uninterpreted_option"):
            continue
        for each in value if field.is_repeated else [value]:
            yield field.name, _option_value(field, each)


def _option_value(field: Any, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"{_INDENT}{line}" for line in lines)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
