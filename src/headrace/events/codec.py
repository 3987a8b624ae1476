"""Events and commands as JSON with the name of their type. The name is beside the JSON, in a header of the record."""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from headrace.errors import HeadraceError
from headrace.events.errors import EventsError, InvalidEvent, UnknownEventType

TYPE_FIELD = "type"
"""Of a dict: the name of its type."""


class Codec:
    """The types of one union. `kind` is "event" or "command", for errors."""

    def __init__(self, kind: str, types: Any) -> None:
        self.kind = kind
        is_union = get_origin(types) in (Union, UnionType)
        members = get_args(types) if is_union else (types,)
        self._takes_dicts = types is dict or get_origin(types) is dict
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}
        for member in () if self._takes_dicts else members:
            if not (isinstance(member, type) and issubclass(member, msgspec.Struct)):
                raise EventsError(
                    f"{member!r} can't be the type of an {kind}",
                    hint=f"declare `{kind}s` as a union of msgspec Structs, or as dict",
                )
            name = type_name(member)
            if name in self._decoders:
                raise EventsError(f"two {kind} types are named {name}", hint="give one of them another tag")
            self._decoders[name] = msgspec.json.Decoder(member)

    def encode(self, item: Any) -> tuple[str, bytes]:
        """The name of its type, and its JSON."""
        name = self._name(item)
        try:
            return name, msgspec.json.encode(item)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEvent(
                f"the {self.kind} {name} can't be JSON: {error}", hint="use types that msgspec encodes"
            ) from error

    def decode(self, name: str, content: bytes) -> Any:
        if self._takes_dicts:
            return self._decoded(name, content, lambda: {TYPE_FIELD: name, **msgspec.json.decode(content)})
        decoder = self._decoders.get(name)
        if decoder is None:
            raise UnknownEventType(
                f"the {self.kind} type {name} is unknown",
                hint=f"declare it in `{self.kind}s` of the aggregate: {', '.join(sorted(self._decoders))}",
            )
        return self._decoded(name, content, lambda: decoder.decode(content))

    def _decoded(self, name: str, content: bytes, decode: Any) -> Any:
        try:
            return decode()
        except (msgspec.MsgspecError, TypeError, RecursionError) as error:
            raise InvalidEvent(
                f"the {self.kind} {name} does not fit its type: {error}",
                hint="give new fields a default, and new meanings a new type",
            ) from error

    def _name(self, item: Any) -> str:
        if self._takes_dicts:
            name = item.get(TYPE_FIELD) if isinstance(item, dict) else None
            if not isinstance(name, str) or not name:
                raise InvalidEvent(
                    f"{item!r:.80} is no {self.kind}", hint=f"use a dict with the key {TYPE_FIELD!r}"
                )
            return name
        name = type_name(type(item)) if isinstance(item, msgspec.Struct) else ""
        if name not in self._decoders:
            raise InvalidEvent(
                f"{item!r:.80} is no declared {self.kind}",
                hint=f"declare its type in `{self.kind}s` of the aggregate",
            )
        return name


def type_name(kind: type[msgspec.Struct]) -> str:
    """Its tag, or the name of its class."""
    tag = kind.__struct_config__.tag
    return tag if isinstance(tag, str) and tag else kind.__name__


def decode_state(kind: Any, content: bytes) -> Any:
    """A state that was stored as JSON; HeadraceError if it does not fit the type."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        raise HeadraceError(f"the snapshot does not fit its type: {error}") from error
