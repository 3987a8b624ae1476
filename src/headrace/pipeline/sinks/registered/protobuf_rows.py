"""Rows as Protobuf messages: values of Arrow, as Python has them, set in the fields with their names.

For the schema of the rows themselves and for schemas that a user gives: a value that a field does not take is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

Fill = Callable[[Any, Any], None]
"""Set a field of a message to a value that is not None."""

_WRAPPER = "Value"
_GOOGLE = "google.protobuf."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def filler(descriptor: Any) -> Fill:
    """From a row, as a dict, to a message. ValueError for a column that is no field."""
    fills = {each.name: _field(each) for each in descriptor.fields}

    def fill(message: Any, row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            if value is not None:
                try:
                    fills[name](message, value)
                except KeyError:
                    raise ValueError(f"{descriptor.full_name} has no field {name}") from None
                except (TypeError, ValueError) as error:
                    raise ValueError(f"{name}: {error}") from None

    return fill


def missing_fields(descriptor: Any, columns: list[str]) -> list[str]:
    """Columns without a field."""
    return [each for each in columns if each not in descriptor.fields_by_name]


def _field(field: Any) -> Fill:
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(field)
    if field.message_type is None:
        convert = _scalar(field)
        if field.is_repeated:
            return lambda message, values: getattr(message, name).extend([convert(each) for each in values])
        return lambda message, value: setattr(message, name, convert(value))
    fill = _message(field.message_type)
    if field.is_repeated:

        def add(message: Any, values: Any) -> None:
            for each in values:
                fill(getattr(message, name).add(), _not_none(each))

        return add

    def set_message(message: Any, value: Any) -> None:
        part = getattr(message, name)
        part.SetInParent()
        fill(part, value)

    return set_message


def _map(field: Any) -> Fill:
    key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
    name, key_of = field.name, _scalar(key)
    if value.message_type is None:
        value_of = _scalar(value)

        def set_scalars(message: Any, pairs: Any) -> None:
            entries = getattr(message, name)
            for each, one in pairs:
                entries[key_of(each)] = value_of(one)

        return set_scalars
    fill = _message(value.message_type)

    def set_messages(message: Any, pairs: Any) -> None:
        entries = getattr(message, name)
        for each, one in pairs:
            fill(entries[key_of(each)], _not_none(one))

    return set_messages


def _message(descriptor: Any) -> Fill:
    name = descriptor.full_name
    if name == f"{_GOOGLE}Timestamp":
        return _set_timestamp
    if name == f"{_GOOGLE}Duration":
        return _set_duration
    if name.startswith(_GOOGLE) and name.endswith(_WRAPPER) and "value" in descriptor.fields_by_name:
        return _field(descriptor.fields_by_name["value"])
    fill: Fill | None = None

    def fill_lazily(message: Any, value: Any) -> None:
        """A message may have itself as a field."""
        nonlocal fill
        fill = fill or filler(descriptor)
        fill(message, value)

    return fill_lazily


def _set_timestamp(message: Any, value: Any) -> None:
    time = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    _set_microseconds(message, (time - _EPOCH) // _MICROSECOND)


def _set_duration(message: Any, value: Any) -> None:
    microseconds = value // _MICROSECOND
    sign = -1 if microseconds < 0 else 1
    seconds, rest = divmod(abs(microseconds), 1_000_000)
    message.seconds, message.nanos = sign * seconds, sign * rest * 1000


def _set_microseconds(message: Any, microseconds: int) -> None:
    message.seconds, rest = divmod(microseconds, 1_000_000)
    message.nanos = rest * 1000


def _scalar(field: Any) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        return lambda value: _enum_number(field.enum_type, _not_none(value))
    if field.type == FieldDescriptor.TYPE_STRING:
        return lambda value: _text(_not_none(value))
    if field.cpp_type in (FieldDescriptor.CPPTYPE_UINT64, FieldDescriptor.CPPTYPE_INT64):
        return lambda value: int(value) if isinstance(value, Decimal) else _not_none(value)
    return _not_none


def _enum_number(kind: Any, value: Any) -> int:
    found = kind.values_by_name.get(value)
    if found is not None:
        return int(found.number)
    if str(value).lstrip("-").isdecimal():  # a number without a name, as it was read
        return int(value)
    raise ValueError(f"{value!r} is not one of {', '.join(kind.values_by_name)}")


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, date) else value


def _not_none(value: Any) -> Any:
    if value is None:
        raise ValueError("Protobuf has no null within a list or a map")
    return value
