"""The reason of a dead letter in words: why a record could not be parsed.

Spark decides which records and which fields are bad. This code runs for bad records only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

NAMED_MAX = 3
"""Fields that a reason names: enough to find the bug, and a reason stays a line."""

QUOTED_CHARACTERS_MAX = 60

CHANGE_OPERATIONS = ("c", "u", "d", "r")
"""Of an envelope of changes: created, updated, deleted, read by a snapshot."""

REGISTRY_PREFIX_BYTES = 5
"""What serializers with a schema registry put in front: a zero, and the number of the schema in four bytes."""


class Finding(Struct, frozen=True, kw_only=True):
    """What Spark found in a bad record."""

    is_unreadable: bool
    missing: Sequence[str]
    misfits: Sequence[str]
    ahead: str | None = None
    """The event time, if it is too far ahead of the record's timestamp."""
    ancient: str | None = None
    """The event time, if it is before every watermark."""
    problem: str | None = None
    """The reason, if the format has found it out itself."""


def reason(format: str, schema: str | None, content: bytes | None, finding: Finding) -> str:
    """`schema` is the text that `formats.schema_text` gives."""
    if finding.problem is not None:
        return finding.problem
    if content is None:
        return "there is no value"
    if finding.is_unreadable:
        if format in ("avro", "avro-registry"):
            return _avro_reason(format, json.loads(schema or "{}"), content)
        return _text_reason(format, json.loads(schema or "{}"), content, finding.misfits)
    if finding.ahead is not None:
        return f"event time {finding.ahead} is too far ahead of the record's timestamp"
    if finding.ancient is not None:
        return f"event time {finding.ancient} is before 1970, where the watermark of a stream starts"
    return "; ".join(f"field {name} is missing" for name in finding.missing[:NAMED_MAX])


def file_reason(
    format: str, schema: str, text: str | None, finding: Finding, fields: Sequence[str | None]
) -> str:
    """Of a row of a file; `text` is set if it could not be parsed, and `fields` are what CSV has in it."""
    described = json.loads(schema)
    if text is None:
        return "; ".join(f"column {name} is missing" for name in finding.missing[:NAMED_MAX]) or (
            "its event time is before 1970, where the watermark of a stream starts"
        )
    if format == "json":
        return _text_reason(format, described, text.encode(), finding.misfits)
    names = [field["name"] for field in described["fields"]]
    if finding.misfits:
        return _misfit_reason(described, dict(zip(names, fields, strict=True)), finding.misfits)
    return f"not CSV with the columns {', '.join(names)}"


def _text_reason(format: str, schema: Mapping[str, Any], content: bytes, misfits: Sequence[str]) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{content[error.start]:02x} at {error.start}"
    try:
        document = json.loads(text)
    except ValueError as error:
        problem = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        position = error.pos if isinstance(error, json.JSONDecodeError) else 0
        return f"not JSON: {problem} at character {position}"
    if not isinstance(document, dict):
        return f"not a JSON object: {_quoted(document)}"
    if format == "changes":
        return _change_reason(schema, document, misfits)
    return _misfit_reason(schema, document, misfits)


def _misfit_reason(schema: Mapping[str, Any], document: Mapping[str, Any], misfits: Sequence[str]) -> str:
    types = {field["name"]: _type_name(field["type"]) for field in schema["fields"]}
    problems = [
        f"field {name}: {_quoted(document.get(name))} is not {_with_article(types[name])}"
        for name in misfits[:NAMED_MAX]
    ]
    return "; ".join(problems) or "not JSON of the schema"


def _change_reason(schema: Mapping[str, Any], document: Mapping[str, Any], misfits: Sequence[str]) -> str:
    envelope = document.get("payload") if isinstance(document.get("payload"), dict) else document
    assert envelope is not None
    row = envelope.get("after") or envelope.get("before")
    if misfits and isinstance(row, dict):
        return _misfit_reason(schema, row, misfits)
    if envelope.get("op") not in CHANGE_OPERATIONS:
        return f"not a row's change: op is {_quoted(envelope.get('op'))}"
    return "not a row's change: neither before nor after holds a row"


def _avro_reason(format: str, schemas: Mapping[str, Any], content: bytes) -> str:
    if format == "avro-registry":
        if len(content) < REGISTRY_PREFIX_BYTES or content[0] != 0:
            return "it does not start with a zero and the number of a schema, as a registry's records do"
        number = int.from_bytes(content[1:REGISTRY_PREFIX_BYTES])
        if "*" not in schemas and str(number) not in schemas:
            return f"schema number {number} is not among those given: {', '.join(schemas)}"
        return f"not Avro of schema number {number}"
    return "not Avro of the schema"


def _type_name(kind: Any) -> str:
    """`timestamp` -> TIMESTAMP; nested types by what they are."""
    name = kind if isinstance(kind, str) else str(kind["type"])
    return {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}.get(
        name, name.upper()
    )


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIO" else f"a {name}"


def _quoted(found: Any) -> str:
    shown = repr(found) if isinstance(found, str) else json.dumps(found)
    return shown if len(shown) <= QUOTED_CHARACTERS_MAX else shown[: QUOTED_CHARACTERS_MAX - 1] + "…"
