"""Protobuf messages of registered schemas, by descriptors: no generated code.

A schema's text becomes descriptors with protoc, which `headrace.schemas` runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import DecodeError

from headrace.errors import HeadraceError
from headrace.names import did_you_mean
from headrace.registered.errors import BadRecord
from headrace.registered.framing import message_path
from headrace.schemas.protobuf.parsing import ProtobufSchema

Path = tuple[int, ...]


class Messages:
    """The messages of one schema, in a pool of their own: another version has types with the same names."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        for each in (*schema.imported, schema.file):
            self._pool.Add(each)
        package = f"{schema.file.package}." if schema.file.package else ""
        self._names = dict(_paths(schema.file.message_type, package, ()))

    def name_at(self, path: Path) -> str:
        """The full name of the message at a path."""
        if path not in self._names:
            raise BadRecord(f"its schema has no message {'.'.join(map(str, path))}")
        return self._names[path]

    def path_of(self, name: str) -> Path:
        return next(path for path, each in self._names.items() if each == name)

    def chosen(self, name: str | None) -> str:
        """The full name of a message, by its name with or without the package; the first one without a name."""
        names = [each for each in self._names.values() if not self._is_entry(each)]
        if not names:
            raise HeadraceError("the Protobuf schema has no message", hint="register one with a message")
        if name is None:
            return names[0]
        found = [each for each in names if each == name or each.endswith(f".{name}")]
        if len(found) != 1:
            problem = "no message" if not found else "several messages"
            hint = did_you_mean(name, names) or f"its messages are {', '.join(names)}"
            raise HeadraceError(f"the Protobuf schema has {problem} {name}", hint=hint)
        return found[0]

    def _is_entry(self, name: str) -> bool:
        """Whether it stands for the pairs of a map."""
        return bool(self._pool.FindMessageTypeByName(name).GetOptions().map_entry)

    def kind(self, name: str) -> Any:
        """The class of the messages of a full name."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))


def parse_message(kind: Any, body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise BadRecord(f"not Protobuf of {kind.DESCRIPTOR.full_name}: the message is damaged") from error


def message_and_body(messages: Messages, record: bytes) -> tuple[str, bytes]:
    """The full name of the message that a record is, and its bytes."""
    path, position = message_path(record)
    return messages.name_at(path), record[position:]


def _paths(messages: Iterable[DescriptorProto], package: str, above: Path) -> Iterator[tuple[Path, str]]:
    for number, each in enumerate(messages):
        yield (*above, number), f"{package}{each.name}"
        yield from _paths(each.nested_type, f"{package}{each.name}.", (*above, number))
