"""Comparing the JSON of a command with the class that declares it."""

from __future__ import annotations

import importlib
import json
import types
import typing
from typing import Any

import msgspec

from headrace.cli.main import COMMANDS
from headrace.cli.output import RESULTS, Shape

# Results are declared as the commands are imported, and some only by what a command imports when it runs.
RESULTS_OF = ("job.run", "job.screen", "job.state", "top.look", "webhook.incoming", "webhook.outgoing")
for module in (*COMMANDS.values(), *(f"headrace.cli.{each}" for each in RESULTS_OF)):
    importlib.import_module(module)


def json_problems(command: str, shown: str) -> list[str]:
    """Where the output of a command is not as it is declared; output without any object is one too."""
    result = RESULTS[command]
    if result.shape is Shape.LINES:
        found = [json.loads(line) for line in shown.splitlines()]
    else:
        found = json.loads(shown) if result.shape is Shape.LIST else [json.loads(shown)]
    return [each for item in found for each in problems(item, result.kind, command)] if found else ["nothing"]


def problems(found: Any, hint: Any, place: str) -> list[str]:
    """Where a value of JSON is not of the type."""
    if hint is Any:
        return []
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return problems(found, members[0], place)
    if isinstance(hint, types.UnionType):
        tried = [problems(found, each, place) for each in members]
        return [] if [] in tried else [f"{place}: {found!r} is not {hint}"]
    if origin in (list, tuple) and isinstance(found, list):
        return [each for item in found for each in problems(item, members[0], f"{place}[]")]
    if origin is dict and isinstance(found, dict):
        return [
            each for name, item in found.items() for each in problems(item, members[1], f"{place}.{name}")
        ]
    if isinstance(hint, msgspec.StructMeta) and isinstance(found, dict):
        return _field_problems(found, hint, place)
    wanted = str if isinstance(hint, type) and issubclass(hint, str) else hint
    is_right = type(found) is wanted or (wanted is float and type(found) is int)
    return [] if is_right else [f"{place}: {found!r} is not {hint}"]


def _field_problems(found: dict[str, Any], kind: Any, place: str) -> list[str]:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    required = {name for name, field in fields.items() if field.required}
    wrong = [f"{place}.{name} is not declared" for name in found.keys() - fields.keys()]
    wrong += [f"{place}.{name} is missing" for name in required - found.keys()]
    for name in found.keys() & fields.keys():
        wrong += problems(found[name], fields[name].type, f"{place}.{name}")
    return wrong
