"""A plain encoder that remembers where it wrote each length, so that tests can put hostile ones there.

It walks the schema value by value and shares nothing with the generated code but the schema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.protocol.schema import Encoding, fields_at
from headrace.protocol.types import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A length in an encoded message: of a string, of bytes, of records, or the count of an array."""

    label: str
    encoding: Encoding
    position: int
    prefix_bytes: int
    length: int

    @property
    def is_string(self) -> bool:
        return self.encoding.wire is Wire.STRING

    @property
    def is_array(self) -> bool:
        return self.encoding.element is not None


@dataclass(slots=True, kw_only=True)
class MarkedBytes:
    """A message under construction."""

    version: int
    flexible: bool
    data: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)

    def struct(self, value: Any) -> None:
        fields = fields_at(type(value), self.version)
        for member in fields:
            if member.tag is None:
                self.value(member.name, getattr(value, member.name), member.encoding)
        if not self.flexible:
            return
        tagged = [
            member
            for member in fields
            if member.tag is not None and getattr(value, member.name) != member.default
        ]
        self.data += varint(len(tagged))
        for member in tagged:
            inside = MarkedBytes(version=self.version, flexible=True)
            inside.value(member.name, getattr(value, member.name), member.encoding)
            assert member.tag is not None
            self.data += varint(member.tag) + varint(len(inside.data))
            shift = len(self.data)
            self.marks += [replace(mark, position=mark.position + shift) for mark in inside.marks]
            self.data += inside.data

    def value(self, label: str, value: Any, encoding: Encoding) -> None:
        if encoding.struct is not None:
            if encoding.nullable:
                null = b"\0" if encoding.in_tag else b"\xff"
                self.data += null if value is None else b"\x01"
            if value is not None:
                self.struct(value)
        elif encoding.fixed_bytes is not None:
            assert encoding.wire is not None
            self.data += struct.pack(
                ">" + encoding.wire.value, value.bytes if encoding.wire is Wire.UUID else value
            )
        else:
            self.sized(label, value, encoding)

    def sized(self, label: str, value: Any, encoding: Encoding) -> None:
        content = value.encode() if encoding.wire is Wire.STRING and value is not None else value
        length = -1 if value is None else len(content)
        prefix = length_prefix(length, encoding, flexible=self.flexible)
        position = len(self.data)
        self.marks.append(
            Mark(
                label=label,
                encoding=encoding,
                position=position,
                prefix_bytes=len(prefix),
                length=length,
            )
        )
        self.data += prefix
        if encoding.element is None:
            self.data += content or b""
            return
        for element in value or ():
            self.value(label, element, encoding.element)

    def with_length(self, mark: Mark, length: int) -> bytes:
        """The message with another number where this length is."""
        prefix = length_prefix(length, mark.encoding, flexible=self.flexible)
        return bytes(self.data[: mark.position] + prefix + self.data[mark.position + mark.prefix_bytes :])


def marked_bytes(value: Any, version: int, *, flexible: bool) -> MarkedBytes:
    made = MarkedBytes(version=version, flexible=flexible)
    made.struct(value)
    return made


def length_prefix(length: int, encoding: Encoding, *, flexible: bool) -> bytes:
    if flexible:
        return varint(length + 1)
    return struct.pack(">h" if encoding.wire is Wire.STRING else ">i", length)


def varint(value: int) -> bytes:
    return bytes(_groups_of_seven(value))


def _groups_of_seven(value: int) -> Iterator[int]:
    while value > 0x7F:
        yield (value & 0x7F) | 0x80
        value >>= 7
    yield value
