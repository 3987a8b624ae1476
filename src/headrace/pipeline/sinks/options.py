"""A sink from the options of a Spark writer, all of which are strings, and whose names know no case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.errors import BadSink


def read_options(
    format: str,
    options: Mapping[str, str],
    *,
    texts: Sequence[str] = (),
    lists: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> dict[str, Any]:
    """The values of a sink's fields. `order_by` may be written `orderBy`, as Spark's own options are."""
    known = {_plain(name): name for name in (*texts, *lists, *numbers)}
    found: dict[str, Any] = {}
    for option, text in options.items():
        name = known.get(_plain(option))
        if name is None:
            raise BadSink(
                f"headrace-{format} has no option {option!r}",
                hint=f"its options are: {', '.join(known.values())}",
            )
        if name in lists:
            found[name] = tuple(each.strip() for each in text.split(",") if each.strip())
        elif name in numbers:
            found[name] = _number(option, text)
        else:
            found[name] = text
    return found


def name_in(format: str, found: dict[str, Any]) -> str:
    """The name, taken out; that of the folder if only a folder is given."""
    name = found.pop("name", None) or str(found.get("at", "")).rstrip("/").rpartition("/")[2]
    if not name:
        raise BadSink(f"headrace-{format} needs a name", hint='.option("name", …), or a path')
    return str(name)


def _plain(option: str) -> str:
    return option.replace("_", "").lower()


def _number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadSink(f"{option}={text!r} is not a whole number", hint="give it as digits") from error
