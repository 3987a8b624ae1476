"""The fields of a sink from the options of a Spark writer: all of them are strings, with case-insensitive names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.pipeline.errors import BadSink


def read_options(sink: Any, options: Mapping[str, str], names: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of the sink's class by name. `names` are the options, by default one for each field.

    `order_by` may be written `orderBy`, as Spark's own options are. `storage.region` is the entry `region` of the field
    `storage_options`.
    """
    types = {field.name: str(field.type) for field in dataclasses.fields(sink)}
    mappings = [name for name, kind in types.items() if kind == "Mapping[str, str]"]
    known = {_plain(name): name for name in names or types if name not in mappings}
    found: dict[str, Any] = {name: {} for name in mappings}
    for option, text in options.items():
        prefix, _, entry = option.partition(".")
        mapping, name = f"{prefix.lower()}_options", known.get(_plain(option))
        if entry and mapping in mappings:
            found[mapping][entry] = text
        elif name is not None:
            found[name] = _parsed(option, text, _PARSERS.get(types.get(name, ""), str))
        else:
            raise BadSink(
                f"headrace-{sink.kind} has no option {option!r}",
                hint=f"its options are: {', '.join(known.values())}",
            )
    return found


def _plain(option: str) -> str:
    return option.replace("_", "").lower()


def _parsed(option: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        if parse is _is_true:
            raise BadSink(f"{option}={text!r} is neither true nor false", hint="write one of them") from error
        raise BadSink(f"{option}={text!r} is not a number", hint="give it as digits") from error


def _list(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _pairs(text: str) -> dict[str, str]:
    """`visits:sum, last_at:max`."""
    pairs = [each.partition(":") for each in _list(text)]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _is_true(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_PARSERS: dict[str, Callable[[str], Any]] = {
    "str | Sequence[str]": _list,
    "Sequence[str]": _list,
    "Mapping[str, Combine]": _pairs,
    "int": int,
    "int | None": int,
    "float": float,
    "bool": _is_true,
}
"""By the annotation of the field; the others are texts."""
