"""Which schemas are the same one, and so have the same id: texts that differ only in how they are written."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

import msgspec

from headrace.schemas.definition import Definition, SchemaType
from headrace.schemas.errors import InvalidSchema
from headrace.schemas.json_text import canonical, decode
from headrace.schemas.parsing import Parsed

Identity = bytes


def of_text(definition: Definition, extra: dict[str, Any]) -> Identity:
    """Without parsing the schema, which would need its references: for every record of the topic."""
    text = definition.text.encode(errors="replace")
    if definition.type is not SchemaType.PROTOBUF:
        # A record of another registry that is not JSON is only equal to itself.
        with contextlib.suppress(InvalidSchema):
            text = canonical(decode(definition.text))
    return _identity(b"text", definition, text, extra)


def of_parsed(definition: Definition, parsed: Parsed, extra: dict[str, Any]) -> Identity:
    return _identity(b"parsed", definition, parsed.canonical, extra)


def _identity(kind: bytes, definition: Definition, form: bytes, extra: dict[str, Any]) -> Identity:
    parts = [
        kind,
        definition.type.encode(),
        msgspec.json.encode(sorted(msgspec.structs.astuple(each) for each in definition.references)),
        msgspec.json.encode(extra, order="sorted"),
        form,
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.digest()
