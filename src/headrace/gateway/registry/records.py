"""The records of the topic, in the format of Confluent's and Karapace's registries. Values only.

The key says what a record is about, and compaction keeps the last record of each key. A key is the bytes of a JSON
text, so its fields have one order.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headrace.schemas.definition import Definition, Reference, SchemaType
from headrace.schemas.levels import Compatibility


class Mode(enum.StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"


class Version(Struct, frozen=True, kw_only=True):
    """A version of a subject. `extra` has what clients attach to a schema, such as metadata and rules; the registry
    only keeps it."""

    subject: str
    version: int
    id: int
    definition: Definition
    is_deleted: bool = False
    extra: dict[str, Any] = {}

    @property
    def properties(self) -> Mapping[str, Any]:
        """Those of its metadata, by which clients find it."""
        metadata = self.extra.get("metadata")
        properties = metadata.get("properties") if isinstance(metadata, Mapping) else None
        return properties if isinstance(properties, Mapping) else {}


class SchemaKey(Struct, frozen=True):
    subject: str
    version: int


class ConfigKey(Struct, frozen=True):
    subject: str | None


class ModeKey(Struct, frozen=True):
    subject: str | None


class DeleteSubjectKey(Struct, frozen=True):
    subject: str


class NoopKey(Struct, frozen=True):
    """What other registries write to find the end of the topic. Here its value has the greatest id ever assigned, which
    is written when a schema is deleted for good; so a restart does not assign that id again."""


Key = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | NoopKey


class DeletedSubject(Struct, frozen=True):
    """All versions up to this one are soft-deleted."""

    version: int


class GreatestId(Struct, frozen=True):
    id: int


Value = Version | Compatibility | Mode | DeletedSubject | GreatestId


class UnreadableRecord(Exception):
    """The record is not one of a registry."""


_MAGIC_OF_SCHEMA = 1
_MAGIC = 0
_KEPT = ("metadata", "ruleSet")


class _JsonKey(Struct):
    keytype: str
    subject: str | None = None
    version: int | UnsetType = UNSET


def encode_key(key: Key) -> bytes:
    match key:
        case SchemaKey(subject, version):
            fields: dict[str, Any] = {"keytype": "SCHEMA", "subject": subject, "version": version}
            return msgspec.json.encode(fields | {"magic": _MAGIC_OF_SCHEMA})
        case ConfigKey(subject):
            fields = {"keytype": "CONFIG", "subject": subject}
        case ModeKey(subject):
            fields = {"keytype": "MODE", "subject": subject}
        case DeleteSubjectKey(subject):
            fields = {"keytype": "DELETE_SUBJECT", "subject": subject}
        case NoopKey():
            fields = {"keytype": "NOOP"}
    return msgspec.json.encode(fields | {"magic": _MAGIC})


def decode_key(data: bytes | None) -> Key:
    try:
        key = msgspec.json.decode(data or b"", type=_JsonKey)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableRecord(f"its key is not one of a registry: {error}") from None
    match key:
        case _JsonKey(keytype="SCHEMA", subject=str(subject), version=int(version)):
            return SchemaKey(subject, version)
        case _JsonKey(keytype="CONFIG", subject=subject):
            return ConfigKey(subject or None)
        case _JsonKey(keytype="MODE", subject=subject):
            return ModeKey(subject or None)
        case _JsonKey(keytype="DELETE_SUBJECT", subject=str(subject)):
            return DeleteSubjectKey(subject)
        case _JsonKey(keytype="NOOP"):
            return NoopKey()
    raise UnreadableRecord(f"the key type {key.keytype!r:.40} is unknown")


def encode_value(value: Value, subject: str | None = None) -> bytes:
    """`subject` is the one of a subject that is deleted."""
    match value:
        case Version():
            return msgspec.json.encode(
                version_fields(value) | {"deleted": value.is_deleted},
            )
        case Compatibility():
            return msgspec.json.encode({"compatibilityLevel": value})
        case Mode():
            return msgspec.json.encode({"mode": value})
        case DeletedSubject(version):
            return msgspec.json.encode({"subject": subject, "version": version})
        case GreatestId(number):
            return msgspec.json.encode({"greatestId": number})


def decode_value(key: Key, data: bytes) -> Value | None:
    """None for a value that says nothing."""
    try:
        value = msgspec.json.decode(data, type=dict[str, Any])
        match key:
            case SchemaKey():
                return _version_of(value)
            case ConfigKey():
                level = value.get("compatibilityLevel")
                return None if level is None else Compatibility(level)
            case ModeKey():
                return Mode(value["mode"])
            case DeleteSubjectKey():
                return DeletedSubject(int(value["version"]))
            case NoopKey():
                return GreatestId(int(value["greatestId"])) if "greatestId" in value else None
    except (msgspec.MsgspecError, RecursionError, KeyError, ValueError, TypeError) as error:
        raise UnreadableRecord(f"its value is not one of a registry: {error!r:.200}") from None


def version_of(fields: dict[str, Any]) -> Version:
    """As the API has it."""
    try:
        return _version_of(fields)
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError) as error:
        raise UnreadableRecord(f"not a version of a schema: {error!r:.200}") from None


def version_fields(version: Version) -> dict[str, Any]:
    """A version as the API and the topic have it: the type is omitted for Avro, as in the time when there was no
    other."""
    definition = version.definition
    fields: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    return fields | definition_fields(definition, version.extra)


def definition_fields(definition: Definition, extra: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {} if definition.type is SchemaType.AVRO else {"schemaType": definition.type}
    if definition.references:
        fields["references"] = definition.references
    return fields | extra | {"schema": definition.text}


def _version_of(value: dict[str, Any]) -> Version:
    references = msgspec.convert(value.get("references") or [], tuple[Reference, ...])
    return Version(
        subject=msgspec.convert(value["subject"], str),
        version=msgspec.convert(value["version"], int),
        id=msgspec.convert(value["id"], int),
        definition=Definition(
            text=msgspec.convert(value["schema"], str),
            type=SchemaType(value.get("schemaType") or "AVRO"),
            references=references,
        ),
        is_deleted=bool(value.get("deleted", False)),
        extra={name: value[name] for name in _KEPT if value.get(name) is not None},
    )
