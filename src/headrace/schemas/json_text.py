"""Schemas that are written as JSON: decoding within bounds, and the form in which equal values are equal bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.schemas.errors import InvalidSchema

DEPTH_MAX = 250
"""Of nested arrays and objects. A record within a record takes four of them; parsing and comparing are recursive."""


def decode(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidSchema(
            f"the schema is not JSON: {error}", hint="check the text of the schema"
        ) from error
    _check_depth(value)
    return value


def encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def canonical(value: Any) -> bytes:
    """Without white space, and with sorted keys."""
    return msgspec.json.encode(value, order="sorted")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [child for each in level for child in _children(each)]
        if not level:
            return
    raise _too_deep()


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _too_deep() -> InvalidSchema:
    return InvalidSchema(
        f"the schema is nested more than {DEPTH_MAX} levels deep",
        hint="name inner types, and refer to the names",
    )
