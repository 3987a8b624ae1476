"""Which schema a source is read with: the latest of a subject when the source is created, or a given version.

The answer is a part of the source's description, so a job has the same columns until it is started again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadSource
from headrace.registered.client import RegistryClient
from headrace.registered.errors import RequestRejected
from headrace.registered.schema import RegisteredSchema
from headrace.schemas.definition import SchemaType

RegisteredFormat = Literal["avro-registry", "json-registry", "protobuf-registry"]

TYPES: dict[str, SchemaType] = {
    "avro-registry": SchemaType.AVRO,
    "json-registry": SchemaType.JSON,
    "protobuf-registry": SchemaType.PROTOBUF,
}

WRITERS_MAX = 16
"""Newest versions of a subject whose Avro Spark decodes by itself. Python decodes what others wrote, about
half as fast; each version makes Spark's plan larger."""


class ReaderSchema(Struct, frozen=True, kw_only=True, tag=True):
    """In the options of a source, as JSON."""

    registry: str
    registered: RegisteredSchema
    writers: tuple[RegisteredSchema, ...] = ()
    """Those known when the source was created, for Avro."""
    message: str | None = None
    """For Protobuf: the message that is read, by its name; None for the first one."""

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()


def reader_schema_of(text: str | None) -> ReaderSchema | None:
    """None for the text of any other schema."""
    try:
        return msgspec.json.decode(text or "", type=ReaderSchema)
    except msgspec.DecodeError:
        return None


def find_reader_schema(
    registry: str,
    topics: Sequence[str],
    *,
    format: str,
    subject: str | None = None,
    version: int | None = None,
    message: str | None = None,
    is_key: bool = False,
) -> ReaderSchema:
    if message is not None and format != "protobuf-registry":
        raise BadSource(f"{format} has no messages to choose from", hint='message is for "protobuf-registry"')
    subject = subject or _subject_of(topics, is_key)
    client = RegistryClient(registry)
    try:
        found = client.version(subject, version)
        is_avro = found.schema.type is SchemaType.AVRO
        writers = client.all_versions(subject, newest=WRITERS_MAX) if is_avro else []
    except RequestRejected as error:
        raise BadSource(error.message, hint=_hint(error, subject)) from error
    if found.schema.type is not TYPES[format]:
        formats = {kind: name for name, kind in TYPES.items()}
        raise BadSource(
            f"the schema of {subject} is {found.schema.type}, and format is {format!r}",
            hint=f'set format="{formats[found.schema.type]}"',
        )
    return ReaderSchema(registry=registry, registered=found, writers=tuple(writers), message=message)


def _subject_of(topics: Sequence[str], is_key: bool) -> str:
    if len(topics) != 1:
        raise BadSource(
            "several topics have several subjects", hint='name the one that is read: subject="orders-value"'
        )
    return f"{topics[0]}-{'key' if is_key else 'value'}"


def _hint(error: HeadraceError, subject: str) -> str:
    return f'{error.hint} The subject is {subject!r}; subject="…" names another'.strip()
