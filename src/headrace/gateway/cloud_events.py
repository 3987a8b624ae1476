"""CloudEvents 1.0 over HTTP, as records of its Kafka binding in binary mode.

The attributes become headers `ce_…`, the data becomes the value, its type the header `content-type`, and `partitionkey`
the key. So readers see one form, whatever the sender chose: one event, a batch, or attributes in the headers of the
request.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from headrace.gateway.errors import BadBody
from headrace.gateway.formats import check_count, decoded, json_text
from headrace.gateway.records import NewRecord

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"

REQUIRED = ("id", "source", "type")
VERSION = "1.0"
ATTRIBUTES_MAX = 64
"""Of one event, the extensions included; each becomes a header."""

_NAME = re.compile(r"[a-z0-9]{1,64}")
_JSON_TYPE = re.compile(r"[^;]*[/+]json\b", re.IGNORECASE)
_HINT = "https://github.com/cloudevents/spec describes the format"
_EVENT = msgspec.json.Decoder(dict[str, Raw])
_EVENTS = msgspec.json.Decoder(list[dict[str, Raw]])
_ATTRIBUTE = msgspec.json.Decoder(str | int | bool | None)
_TEXT = msgspec.json.Decoder(str)


def is_cloud_event(content_type: str, headers: Mapping[str, str]) -> bool:
    return content_type in (STRUCTURED, BATCHED) or "ce-specversion" in headers


def records_of(
    content_type: str, headers: Mapping[str, str], body: bytes, *, records_max: int
) -> list[NewRecord]:
    """`content_type` is without parameters; `headers` have names in lower case."""
    if content_type == STRUCTURED:
        return [_structured(decoded(_EVENT, json_text(body), hint=_HINT))]
    if content_type == BATCHED:
        events = decoded(_EVENTS, json_text(body), hint=_HINT)
        check_count(len(events), records_max)
        return [_structured(each) for each in events]
    attributes = {
        name.removeprefix("ce-"): unquote(text) for name, text in headers.items() if name.startswith("ce-")
    }
    return [_record(attributes, headers.get("content-type"), body)]


def _structured(event: dict[str, Raw]) -> NewRecord:
    attributes = {}
    for name, raw in event.items():
        if name not in ("data", "data_base64"):
            value = decoded(_ATTRIBUTE, bytes(raw), where=f"the attribute {name[:50]}", hint=_HINT)
            if name in REQUIRED and not isinstance(value, str):
                raise BadBody(f"the {name} of the event is not text", hint=_HINT)
            if value is not None:
                attributes[name] = _as_text(value)
    data_type = attributes.pop("datacontenttype", None)
    if "data" in event and "data_base64" in event:
        raise BadBody("the event has data and data_base64", hint="send one of them")
    data_type = data_type or ("application/json" if "data" in event else None)
    return _record(attributes, data_type, _data(event, data_type))


def _data(event: Mapping[str, Raw], data_type: str | None) -> bytes | None:
    if "data_base64" in event:
        text = decoded(_TEXT, bytes(event["data_base64"]), where="data_base64")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadBody(f"data_base64 is not base64: {error}") from None
    if "data" not in event:
        return None
    data = bytes(event["data"])
    if data_type is not None and not _JSON_TYPE.match(data_type) and data.startswith(b'"'):
        return decoded(_TEXT, data, where="data").encode()
    return data


def _record(attributes: dict[str, str], data_type: str | None, data: bytes | None) -> NewRecord:
    version = attributes.get("specversion")
    if version != VERSION:
        raise BadBody(f"specversion is {str(version)[:50]!r}", hint=f"version {VERSION} is supported")
    for name in REQUIRED:
        if not attributes.get(name):
            raise BadBody(f"the event has no {name}", hint=f"an event needs {', '.join(REQUIRED)}")
    if len(attributes) > ATTRIBUTES_MAX:
        raise BadBody(f"the event has {len(attributes)} attributes", hint=f"at most {ATTRIBUTES_MAX}")
    key = attributes.get("partitionkey")
    return NewRecord(
        key=None if key is None else key.encode(), value=data, headers=[*_headers(attributes, data_type)]
    )


def _headers(
    attributes: Mapping[str, str], data_type: str | None
) -> Iterable[tuple[str, str | bytes | None]]:
    if data_type:
        yield "content-type", data_type.encode()
    for name, text in attributes.items():
        if not _NAME.fullmatch(name):
            raise BadBody(f"{name[:50]!r} can't be the name of an attribute", hint="a to z and 0 to 9")
        yield f"ce_{name}", text.encode(errors="replace")


def _as_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
