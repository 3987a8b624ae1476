"""From the body of a request to records: Confluent's REST proxy v2 (JSON and binary), plain JSON and NDJSON.

Values are kept as they were sent: they are checked, but not decoded. Keys in JSON are written in one way, because equal
keys must be equal bytes.
"""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from headrace.gateway.errors import BadBody, UnsupportedContentType
from headrace.gateway.records import NewRecord

REST_JSON_RECORDS = "application/vnd.kafka.json.v2+json"
REST_BINARY_RECORDS = "application/vnd.kafka.binary.v2+json"
PLAIN = "application/json"
LINES = "application/x-ndjson"

CONTENT_TYPES = (REST_JSON_RECORDS, REST_BINARY_RECORDS, PLAIN, LINES)

_NULL = Raw(b"null")
T = TypeVar("T")


class KeyRule(Struct, frozen=True, kw_only=True):
    """The key of events that are sent without one."""

    key: str | None = None
    """The same for all."""
    field: str | None = None
    """The field of each event that has it."""


class _RestRecord(Struct, forbid_unknown_fields=True):  # a mistyped `value` would be a tombstone
    key: Raw = _NULL
    value: Raw = _NULL
    partition: int | None = None


class _RestBody(Struct):
    records: list[_RestRecord]


class _BinaryRecord(Struct, forbid_unknown_fields=True):
    key: str | None = None
    value: str | None = None
    partition: int | None = None


class _BinaryBody(Struct):
    records: list[_BinaryRecord]


_REST_BODY = msgspec.json.Decoder(_RestBody)
_BINARY_BODY = msgspec.json.Decoder(_BinaryBody)
_EVENT = msgspec.json.Decoder(Raw)
_EVENTS = msgspec.json.Decoder(list[Raw])
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ANY = msgspec.json.Decoder()


def records_of(content_type: str, body: bytes, rule: KeyRule, *, records_max: int) -> list[NewRecord]:
    """The records of a body; `content_type` is without parameters."""
    match content_type:
        case "application/vnd.kafka.json.v2+json":
            found = _rest_json(body, records_max)
        case "application/vnd.kafka.binary.v2+json":
            found = _rest_binary(body, records_max)
        case "application/json":
            found = _plain(body, rule, records_max)
        case "application/x-ndjson":
            found = _lines(body, rule, records_max)
        case _:
            raise UnsupportedContentType(
                f"Content-Type {content_type[:100] or 'missing'} is not supported",
                hint=f"send one of {', '.join(CONTENT_TYPES)}, or CloudEvents; Avro, JSON Schema and Protobuf need the "
                "schema registry (schema_registry in [gateway])",
            )
    return found


def check_count(count: int, records_max: int) -> None:
    """Before records are made: a body has room for millions of short ones."""
    if count > records_max:
        raise BadBody(
            f"the body has more than {records_max:,} records",
            hint=f"send at most {records_max:,} in one request; records_max in [gateway] is the bound",
        )


def json_text(body: bytes) -> bytes:
    """The body, if it is UTF-8: a decoder that skips values does not check that."""
    try:
        if not body.isascii():
            body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    return body


def decoded(decoder: msgspec.json.Decoder[T], body: bytes, *, where: str = "the body", hint: str = "") -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise BadBody(f"{where} is not as expected: {error}", hint=hint) from None
    except msgspec.DecodeError as error:
        raise BadBody(f"{where} is not JSON: {error}", hint=hint) from None
    except RecursionError:
        raise BadBody(f"{where} is nested too deep", hint="a thousand levels are too many") from None


def _rest_json(body: bytes, records_max: int) -> list[NewRecord]:
    hint = 'send {"records": [{"key": …, "value": …, "partition": …}]}; only "value" is needed'
    found = decoded(_REST_BODY, json_text(body), hint=hint)
    check_count(len(found.records), records_max)
    return [
        NewRecord(
            key=None if each.key is _NULL else _key(bytes(each.key)),
            value=_value(bytes(each.value)),
            partition=each.partition,
        )
        for each in found.records
    ]


def _rest_binary(body: bytes, records_max: int) -> list[NewRecord]:
    hint = 'send {"records": [{"value": "a2Fma2E="}]}, with keys and values in base64'
    found = decoded(_BINARY_BODY, body, hint=hint)
    check_count(len(found.records), records_max)
    return [
        NewRecord(
            key=_bytes_of(each.key, index), value=_bytes_of(each.value, index), partition=each.partition
        )
        for index, each in enumerate(found.records)
    ]


def _plain(body: bytes, rule: KeyRule, records_max: int) -> list[NewRecord]:
    """One event, or an array of events."""
    text = json_text(body)
    is_array = text.lstrip(b" \t\r\n").startswith(b"[")
    events = decoded(_EVENTS, text) if is_array else [decoded(_EVENT, text)]
    check_count(len(events), records_max)
    if rule.key is None and rule.field is None:
        return [NewRecord(value=_value(bytes(each))) for each in events]
    return [_event(bytes(each), rule, f"event {index}") for index, each in enumerate(events)]


def _lines(body: bytes, rule: KeyRule, records_max: int) -> list[NewRecord]:
    """One event per line; empty lines are skipped."""
    found: list[NewRecord] = []
    for number, line in enumerate(io.BytesIO(json_text(body)), 1):
        if line.strip():
            check_count(len(found) + 1, records_max)
            event = decoded(_EVENT, line, where=f"line {number}")
            found.append(_event(bytes(event), rule, f"line {number}"))
    return found


def _event(event: bytes, rule: KeyRule, where: str) -> NewRecord:
    key = None if rule.key is None else rule.key.encode()
    if rule.field is not None:
        key = _key_in(event, rule.field, where)
    return NewRecord(key=key, value=_value(event))


def _key_in(event: bytes, field: str, where: str) -> bytes:
    fields = decoded(_FIELDS, event, where=where, hint=f"an object with the field {field} was expected")
    if field not in fields:
        raise BadBody(
            f"{where} has no field {field[:100]!r}", hint="every event needs it, because key_field names it"
        )
    value: Any = decoded(_ANY, bytes(fields[field]), where=where)
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _key(text: bytes) -> bytes | None:
    value = decoded(_ANY, text, where="a key")
    return None if value is None else msgspec.json.encode(value)


def _value(text: bytes) -> bytes | None:
    """A null is a tombstone."""
    return None if text == b"null" else text


def _bytes_of(text: str | None, index: int) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadBody(
            f"record {index} is not base64: {error}", hint=f"{REST_JSON_RECORDS} takes JSON instead"
        ) from None
