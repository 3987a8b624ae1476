"""The catalogue as values."""

from __future__ import annotations

import enum
from typing import Annotated, Literal

from msgspec import Struct

from headrace.schemas.definition import Reference


class UserKind(enum.StrEnum):
    GROUP = "group"
    QUEUE = "queue"
    JOB = "job"
    VIEW = "view"
    CAPTURE = "capture"
    WEBHOOK_IN = "webhook in"
    WEBHOOK_OUT = "webhook out"
    ALERT = "alert"


class User(Struct, frozen=True, order=True):
    """Who writes or reads a topic."""

    kind: Annotated[UserKind, "group, queue, job, view, capture, webhook in, webhook out or alert"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Field(Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: Annotated[
        str, "names from the outside in, with dots; [] after arrays, {} after maps; empty: the value"
    ]
    type: str
    required: Annotated[bool, "whether each event has it"] = False
    default: Annotated[str | None, "as JSON; missing: none"] = None
    doc: Annotated[str | None, "missing: none"] = None


class EventSchema(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest version of a subject. What needs the schema to be parsed is only there for one event type."""

    subject: str
    part: Annotated[Literal["key", "value", "record"], "of the records; record: one of several types"]
    type: Annotated[str, "AVRO, JSON or PROTOBUF"]
    id: Annotated[int, "in the registry"]
    version: Annotated[int, "the latest"]
    versions: Annotated[tuple[int, ...], "all that are not deleted"]
    compatibility: Annotated[str, "what is checked for a new version"]
    references: tuple[Reference, ...] = ()
    fields: Annotated[tuple[Field, ...] | None, "missing in lists"] = None
    problem: Annotated[str | None, "why there are no fields, or not all"] = None


class EventType(Struct, frozen=True, kw_only=True):
    """A topic, or a subject that belongs to none."""

    name: str
    partitions: Annotated[int | None, "null: there is no such topic, only the schema"]
    owner: Annotated[str | None, "the property `owner` of the schema's metadata"]
    contact: Annotated[str | None, "the property `email` or `contact`"]
    description: Annotated[str | None, "the property `description`, or the description within the schema"]
    schemas: tuple[EventSchema, ...]
    written_by: Annotated[tuple[User, ...], "as far as it is known"]
    read_by: Annotated[
        tuple[User, ...], "groups with committed offsets, queues, jobs, views, webhooks out, alerts"
    ]

    def matches(self, search: str) -> bool:
        """Whether the name, the owner, the contact or the description has each word."""
        texts = (self.name, self.owner, self.contact, self.description)
        text = " ".join(each for each in texts if each).casefold()
        return all(word in text for word in search.casefold().split())


class Catalog(Struct, frozen=True, kw_only=True):
    event_types: tuple[EventType, ...]
    problems: Annotated[tuple[str, ...], "what is not in it, and why"]

    def found(self, search: str) -> tuple[EventType, ...]:
        return tuple(each for each in self.event_types if each.matches(search))
