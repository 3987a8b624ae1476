"""How an internal topic keeps structs as records: the part that all of them share.

A key starts with a number for its kind, a value with its version; both are 16 bits, and a struct follows. The kinds of
each topic are in `stored` (groups and offsets), `stored_transactions` and `stored_share_state`.
"""

from __future__ import annotations

import struct as packing
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from headrace.protocol.codec import struct_codec
from headrace.protocol.primitives import MalformedMessage, truncated
from headrace.protocol.types import Buffer

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_NUMBER = packing.Struct(">h")


class StoredFormat(Struct, frozen=True):
    """One kind of record: the struct of its key, and that of its value in versions 0 to the newest."""

    kind: int
    key: type[Any]
    value: type[Any]
    version_newest: int = 0
    flexible_since: int = 0


class StoredTopic(Generic[KeyT]):
    """The records of one internal topic, whose keys are of the classes that `KeyT` names.

    Where two kinds have one class of keys, the later one is written.
    """

    def __init__(self, *formats: StoredFormat) -> None:
        self.formats = formats
        self._by_kind = {one.kind: one for one in formats}
        self._by_key = {one.key: one for one in formats}
        self._by_value = {one.value: one for one in formats}
        assert len(self._by_kind) == len(formats), "two formats of the same kind"

    def encode_key(self, key: KeyT) -> bytes:
        cls: type[Any] = type(key)
        return _NUMBER.pack(self._by_key[cls].kind) + struct_codec(cls, 0, False).encode(key)

    def decode_key(self, data: Buffer) -> KeyT | None:
        """None for an unknown kind: newer versions may keep more in the topic."""
        stored_format = self._by_kind.get(_number(data))
        if stored_format is None:
            return None
        return cast(KeyT, struct_codec(stored_format.key, 0, False).decode(data, _NUMBER.size))

    def encode_value(self, value: object, version: int | None = None) -> bytes:
        """The value in a version: in the newest, if none is given."""
        cls: type[Any] = type(value)
        stored_format = self._by_value[cls]
        version = stored_format.version_newest if version is None else version
        assert 0 <= version <= stored_format.version_newest, f"{cls.__name__} has no version {version}"
        flexible = version >= stored_format.flexible_since
        return _NUMBER.pack(version) + struct_codec(cls, version, flexible).encode(value)

    def decode_value(self, cls: type[ValueT], data: Buffer) -> ValueT:
        """The value of a key; the class of the key determines the class of the value."""
        stored_format = self._by_value[cls]
        version = _number(data)
        if not 0 <= version <= stored_format.version_newest:
            raise MalformedMessage(
                f"{cls.__name__} version {version} is not supported; the newest is {stored_format.version_newest}",
                hint="the data folder was written by a newer headrace; upgrade headrace",
            )
        return struct_codec(cls, version, version >= stored_format.flexible_since).decode(data, _NUMBER.size)


def _number(data: Buffer) -> int:
    try:
        number: int = _NUMBER.unpack_from(data, 0)[0]
    except packing.error as error:
        raise truncated() from error
    return number
