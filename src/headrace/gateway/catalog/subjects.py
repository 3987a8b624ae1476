"""Which subjects belong to which topic, and what their schemas say about the events. Pure.

Confluent's serializers name subjects TOPIC-key and TOPIC-value, RECORD, or TOPIC-RECORD, by their strategy.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from headrace.gateway.registry.records import Version
from headrace.schemas.definition import SchemaType
from headrace.schemas.errors import InvalidSchema
from headrace.schemas.json_text import decode

Part = Literal["key", "value", "record"]

_RECORD_NAME = re.compile(r"[A-Za-z_][\w.]*")
_DESCRIPTIONS = {SchemaType.AVRO: "doc", SchemaType.JSON: "description"}


class Place(Struct, frozen=True):
    """Where the schemas of a subject are used. Without a topic, `name` is the subject."""

    name: str
    part: Part
    has_topic: bool = True


def place_of(subject: str, topics: Mapping[str, object]) -> Place:
    for part in ("key", "value"):
        topic = subject.removesuffix(f"-{part}")
        if topic != subject and topic in topics:
            return Place(topic, "key" if part == "key" else "value")
    pieces = subject.split("-")
    for count in range(len(pieces) - 1, 0, -1):
        topic, record = "-".join(pieces[:count]), "-".join(pieces[count:])
        if topic in topics and _RECORD_NAME.fullmatch(record):
            return Place(topic, "record")
    return Place(subject, "record", has_topic=False)


class Description(Struct, frozen=True, kw_only=True):
    owner: str | None = None
    contact: str | None = None
    text: str | None = None


def description_of(versions: Iterable[Version]) -> Description:
    """The first that is known of each; those of values come first."""
    owner = contact = text = None
    for version in versions:
        properties = version.properties
        owner = owner or _text(properties.get("owner"))
        contact = contact or _text(properties.get("email")) or _text(properties.get("contact"))
        text = text or _text(properties.get("description")) or _within(version)
    return Description(owner=owner, contact=contact, text=text)


def latest_by_subject(versions: Iterable[Version]) -> dict[str, Sequence[Version]]:
    """The versions of each subject, in ascending order."""
    found: dict[str, list[Version]] = {}
    for each in versions:
        found.setdefault(each.subject, []).append(each)
    return {subject: sorted(each, key=lambda one: one.version) for subject, each in found.items()}


def _within(version: Version) -> str | None:
    """What the schema itself says; a .proto file says it in comments, which are not read."""
    name = _DESCRIPTIONS.get(version.definition.type)
    if name is None:
        return None
    with contextlib.suppress(InvalidSchema):
        value = decode(version.definition.text)
        if isinstance(value, dict):
            return _text(value.get(name))
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
