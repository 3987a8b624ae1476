"""Text, or a descriptor in base64, -> a compiled Protobuf schema."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from msgspec import Struct

from headrace.schemas.errors import InvalidSchema
from headrace.schemas.protobuf.compiler import compile_proto, main_file
from headrace.schemas.protobuf.printing import default_json_name, print_proto


class ProtobufSchema(Struct, frozen=True, eq=False):
    text: str
    file: FileDescriptorProto
    imported: tuple[FileDescriptorProto, ...]
    imports: Mapping[str, str]
    """The texts of all imports, by path, without those that protoc brings."""


def parse_protobuf(text: str, *, referenced: Iterable[tuple[str, ProtobufSchema]] = ()) -> ProtobufSchema:
    """`referenced` are schemas by the paths that the text imports."""
    imports: dict[str, str] = {}
    for path, each in referenced:
        imports |= {**each.imports, path: each.text}
    descriptor = _descriptor(text)
    source = text if descriptor is None else print_proto(descriptor)
    compiled = compile_proto(source, imports)
    file = main_file(compiled)
    if descriptor is not None and _without_extensions(file) != _without_extensions(descriptor):
        raise InvalidSchema("the descriptor has no text that means the same", hint="register the .proto file")
    imported = tuple(each for each in compiled.file if each is not file)
    return ProtobufSchema(source, file, imported, imports)


def canonical_bytes(file: FileDescriptorProto) -> bytes:
    """Without names of files, comments, and what follows from the rest: JSON names, options without a value."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("name")
    copy.ClearField("source_code_info")
    if copy.syntax == "proto2":
        copy.ClearField("syntax")
    _clear_implied(copy)
    return bytes(copy.SerializeToString(deterministic=True))


def _without_extensions(file: FileDescriptorProto) -> bytes:
    """Options that extensions define have no names in a descriptor, so that its text has none of them."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.DiscardUnknownFields()
    return canonical_bytes(copy)


def _clear_implied(part: Any) -> None:
    for field, value in part.ListFields():
        if field.message_type is None:
            continue
        for each in value if field.is_repeated else [value]:
            _clear_implied(each)
        if field.name == "options" and not value.ByteSize():
            part.ClearField(field.name)
    if isinstance(part, FieldDescriptorProto) and part.json_name == default_json_name(part.name):
        part.ClearField("json_name")


def serialized(schema: ProtobufSchema) -> str:
    """The descriptor in base64, as clients register it."""
    return base64.b64encode(schema.file.SerializeToString(deterministic=True)).decode()


def _descriptor(text: str) -> FileDescriptorProto | None:
    """If the text is one in base64: no .proto text is, because it has a `;` or is empty."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    try:
        return FileDescriptorProto.FromString(data)
    except DecodeError as error:
        raise InvalidSchema(
            "the text is base64, but not of a descriptor", hint="register .proto text"
        ) from error
