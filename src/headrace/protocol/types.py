"""The wire types that message fields are declared with.

A field's annotation is both its Python type (for people and mypy) and its encoding (for `codec`):

    log_start_offset: Annotated[Int64, since(5)] = -1
    name: Annotated[String, until(12)] = ""
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tagged(1)] = LeaderIdAndEpoch()
    topics: tuple[FetchTopic, ...] = ()
    forgotten: Annotated[tuple[Int32, ...] | None, since(7), nullable_since(7)] = None

What a version leaves out takes the field's default when it is read and is not written.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Final, TypeVar

from msgspec import Struct

ZERO_UUID = uuid.UUID(int=0)

Buffer = bytes | bytearray | memoryview


class Wire(Enum):
    """An encoding; for those of fixed size the value is their `struct` code."""

    BOOL = "?"
    INT8 = "b"
    INT16 = "h"
    UINT16 = "H"
    INT32 = "i"
    UINT32 = "I"
    INT64 = "q"
    FLOAT64 = "d"
    UUID = "16s"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"


Bool = Annotated[bool, Wire.BOOL]
Int8 = Annotated[int, Wire.INT8]
Int16 = Annotated[int, Wire.INT16]
UInt16 = Annotated[int, Wire.UINT16]
Int32 = Annotated[int, Wire.INT32]
UInt32 = Annotated[int, Wire.UINT32]
Int64 = Annotated[int, Wire.INT64]
Float64 = Annotated[float, Wire.FLOAT64]
Uuid = Annotated[uuid.UUID, Wire.UUID]
String = Annotated[str, Wire.STRING]
NullableString = Annotated[str | None, Wire.STRING]
Bytes = Annotated[bytes, Wire.BYTES]
NullableBytes = Annotated[bytes | None, Wire.BYTES]
# Record batches are handed on as they are: read as a view into the frame, written as the buffer given.
Records = Annotated[Buffer | None, Wire.RECORDS]


SAME_AS_DEFAULT: Final = object()


class Since(Struct, frozen=True):
    version: int


class Until(Struct, frozen=True):
    version: int


class NullableSince(Struct, frozen=True):
    version: int


class Tagged(Struct, frozen=True):
    tag: int
    since: int | None = None
    absent: Any = SAME_AS_DEFAULT


def since(version: int) -> Since:
    """The field is there from this version on."""
    return Since(version)


def until(version: int) -> Until:
    """The field is there up to this version, and in it."""
    return Until(version)


def nullable_since(version: int) -> NullableSince:
    """Null may be written from this version on; before it, null is an error."""
    return NullableSince(version)


def tagged(tag: int, *, since: int | None = None, absent: Any = SAME_AS_DEFAULT) -> Tagged:
    """The field travels in the tag buffer, and only when it differs from its default.

    It does so from version `since` on; if that is left out, from its own first version. `absent` is what a tag that
    isn't there stands for, in the rare case that this is not the default one wants in Python.
    """
    return Tagged(tag, since, absent)


T = TypeVar("T")


class MessageInfo(Struct, frozen=True, kw_only=True):
    """What a message class says of itself: which API it belongs to and in which versions."""

    api_key: int
    versions: tuple[int, int]
    flexible_since: int | None
    is_request: bool


MESSAGE_INFO: dict[type[Any], MessageInfo] = {}


def message(
    api_key: int, *, versions: tuple[int, int], flexible_since: int | None
) -> Callable[[type[T]], type[T]]:
    """A whole request or response: `<Api>Request` or `<Api>Response`, as its name says."""

    def declare(cls: type[T]) -> type[T]:
        assert cls.__name__.endswith(("Request", "Response")), cls.__name__
        MESSAGE_INFO[cls] = MessageInfo(
            api_key=api_key,
            versions=versions,
            flexible_since=flexible_since,
            is_request=cls.__name__.endswith("Request"),
        )
        return cls

    return declare


def is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)
