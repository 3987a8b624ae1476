"""The wire types that message fields are declared with.

A field's annotation is both its Python type (for people and mypy) and its encoding (for `codec`):

    log_start_offset: Annotated[Int64, since(5)] = -1
    name: Annotated[String, until(12)] = ""
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tagged(1)] = LeaderIdAndEpoch()
    topics: tuple[FetchTopic, ...] = ()
    forgotten: Annotated[tuple[Int32, ...] | None, since(7), nullable_since(7)] = None

A field that a version does not have is not written, and has its default when the message is read.
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
# Record batches are not decoded: read as a view into the frame, written as the given buffer.
Records = Annotated[Buffer | None, Wire.RECORDS]


SAME_AS_DEFAULT: Final = object()


class Since(Struct, frozen=True):
    """The field exists from this version on."""

    version: int


class Until(Struct, frozen=True):
    """The field exists up to and in this version."""

    version: int


class NullableSince(Struct, frozen=True):
    """Null may be written from this version on; before it, null is an error."""

    version: int


class Tagged(Struct, frozen=True):
    """The field is in the tag buffer, and only if it differs from its default.

    This holds from version `since` on; without `since`, from the first version of the field. `absent` is the value of a
    missing tag, in the rare case that this differs from the default in Python.
    """

    tag: int
    since: int | None = None
    absent: Any = SAME_AS_DEFAULT


since = Since
until = Until
nullable_since = NullableSince
tagged = Tagged


T = TypeVar("T")


class MessageInfo(Struct, frozen=True, kw_only=True):
    """The API of a message class, and its versions."""

    api_key: int
    versions: tuple[int, int]
    flexible_since: int | None
    is_request: bool


MESSAGE_INFO: dict[type[Any], MessageInfo] = {}


def message(
    api_key: int, *, versions: tuple[int, int], flexible_since: int | None
) -> Callable[[type[T]], type[T]]:
    """A whole request or response: `<Api>Request` or `<Api>Response`, by its name."""

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
