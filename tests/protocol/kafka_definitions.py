"""Kafka's own definitions of its messages, read out of the jars that the test kit fetches.

A definition at one version is given in the form in which the tests also put ours, so that the two can be
compared.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNBOUNDED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedField:
    """A field at a version. A struct's `type` is the tuple of its fields; an array of X is ("array", X)."""

    name: str
    type: Any
    nullable: bool
    tag: int | None


class Definition:
    def __init__(self, text: str) -> None:
        self.definition: dict[str, Any] = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
        self._shared = {
            shared["name"]: shared["fields"] for shared in self.definition.get("commonStructs", ())
        }

    @property
    def name(self) -> str:
        return str(self.definition["name"])

    @property
    def api_key(self) -> int:
        return int(self.definition["apiKey"])

    @property
    def is_stored(self) -> bool:
        return self.definition["type"] in ("coordinator-key", "coordinator-value")

    @property
    def stable_versions(self) -> tuple[int, int]:
        first, last = _range(self.definition["validVersions"])
        return (first, last - 1) if self.definition.get("latestVersionUnstable") else (first, last)

    @property
    def flexible_since(self) -> int | None:
        flexible = self.definition["flexibleVersions"]
        return None if flexible == "none" else _range(flexible)[0]

    def fields_at(self, version: int) -> tuple[DefinedField, ...]:
        return self._fields_at(self.definition["fields"], version)

    def explicit_defaults(self) -> dict[tuple[str, str], Any]:
        """(struct, field) to default, for the fields that name one, and for all tagged ones."""
        found: dict[tuple[str, str], Any] = {}
        self._collect_defaults(self.definition["name"], self.definition["fields"], found)
        return found

    def _fields_at(self, fields: list[dict[str, Any]], version: int) -> tuple[DefinedField, ...]:
        present = [self._field_at(field, version) for field in fields if _is_present(field, version)]
        tagged = sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0)
        return (*(f for f in present if f.tag is None), *tagged)

    def _field_at(self, field: dict[str, Any], version: int) -> DefinedField:
        element = field["type"].removeprefix("[]")
        members = field.get("fields") or self._shared.get(element)
        kind = (element, self._fields_at(members, version)) if members else element
        return DefinedField(
            name=snake_case(field["name"]),
            type=("array", kind) if field["type"].startswith("[]") else kind,
            nullable=_has(field, "nullableVersions", version),
            tag=int(field["tag"]) if _has(field, "taggedVersions", version) else None,
        )

    def _collect_defaults(
        self, owner: str, fields: list[dict[str, Any]], found: dict[tuple[str, str], Any]
    ) -> None:
        for field in fields:
            kind = field["type"]
            members = field.get("fields") or self._shared.get(kind.removeprefix("[]"))
            if members:
                self._collect_defaults(kind.removeprefix("[]"), members, found)
            # A null that is no text names no default: Kafka's generator takes the type's own.
            if field.get("default") is not None:
                found[owner, snake_case(field["name"])] = _parsed_default(kind, field["default"])
            elif "tag" in field and (kind in _ZEROES or kind.startswith("[]")):
                found[owner, snake_case(field["name"])] = _ZEROES.get(kind, ())


def read_definitions(jars: Path) -> dict[str, Definition]:
    """By name, from the jar of the clients and from those of the coordinators."""
    found = {}
    for part in ("clients", "group-coordinator", "share-coordinator", "transaction-coordinator"):
        (jar,) = jars.glob(f"kafka-{part}-4*.jar")
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith("common/message/") and name.endswith(".json"):
                    found[Path(name).stem] = Definition(archive.read(name).decode())
    return found


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


_ZEROES: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), 0),
    "bool": False,
    "string": "",
    "uuid": 0,
}


def _parsed_default(kind: str, text: Any) -> Any:
    if text == "null":
        return None
    if kind == "bool":
        return str(text) == "true"
    return text if kind == "string" else int(str(text), 0)


def _range(text: str) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), UNBOUNDED
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _is_present(field: dict[str, Any], version: int) -> bool:
    """Where a definition leaves the versions of a tagged field out, they are those in which it is tagged."""
    return _has(field, "versions" if "versions" in field else "taggedVersions", version)


def _has(field: dict[str, Any], what: str, version: int) -> bool:
    if field.get(what, "none") == "none":
        return False
    first, last = _range(field[what])
    return first <= version <= last
