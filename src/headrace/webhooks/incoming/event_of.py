"""The event of a verified request, or the reason why there is none. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headrace.dead_letters import (
    GROUP_HEADER,
    REASON_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
    TRUNCATED_HEADER,
    dead_letter_topic,
    with_errors,
)
from headrace.edges.event import Event
from headrace.webhooks.incoming.request import AmbiguousHeader, WebhookRequest, header_text
from headrace.webhooks.incoming.signatures import plain_hmac, standard
from headrace.webhooks.incoming.source import Kind, Source

SOURCE_HEADER = "webhook-source"
ID_HEADER = "webhook-id"
EVENT_HEADER = "webhook-event"
CONTENT_TYPE_HEADER = "content-type"

RETRY_HEADER = "webhook-retry"
"""Of a dead letter whose sender was asked to send the request again: the next one may become an event."""

GITHUB_ID = "x-github-delivery"
GITHUB_EVENT = "x-github-event"
GITHUB_PING = b"ping"

TEXT_CHARACTERS_MAX = 256
"""Of an id, an event type or a copied header: they are in memory and in each record."""

KEY_BYTES_MAX = 10_000

LETTER_BYTES_MAX = 500_000
"""Of the body in a dead letter; a topic with default configs takes it."""

_DIGEST_BYTES = 16
"""Two bodies with the same digest: not by chance, and who has no secret can't search for them."""

_COPIED: Mapping[Kind, Sequence[str]] = {
    "github": (GITHUB_EVENT, GITHUB_ID, "x-github-hook-id"),
    "standard": ("webhook-timestamp",),
}


class BadContent(Exception):
    """A verified request that can't be an event. `args[0]` is the reason."""


class Identity(Struct, frozen=True, kw_only=True):
    """By which a request is known again."""

    id: str
    """Empty: the request has none."""
    keys: tuple[bytes, ...]
    """Digests. A request that has one of them was there before; without any, none is known again."""


def is_ping(source: Source, request: WebhookRequest) -> bool:
    """GitHub sends one when a webhook is created: it shows that address and secret are right, and is no event."""
    return source.kind == "github" and request.header(GITHUB_EVENT) == GITHUB_PING


def identity_of(source: Source, request: WebhookRequest) -> Identity:
    message_id = _id_of(source, request)
    if source.kind == "github":
        # The id is not signed: with another one, a recorded request would be new. Its body is signed.
        return Identity(id=message_id, keys=(_key_of(message_id), body_key(request.body)))
    return Identity(id=message_id, keys=(_key_of(message_id),) if message_id else ())


def keys_of_record(kind: Kind, message_id: str, body: bytes | None) -> tuple[bytes, ...]:
    """Those of the request that became this record. Without an id it is a dead letter, known by its body."""
    id_keys = (_key_of(message_id),) if message_id else ()
    if body is None or (id_keys and kind != "github"):
        return id_keys
    return (*id_keys, body_key(body))


def identity_without_id(request: WebhookRequest) -> Identity:
    return Identity(id="", keys=(body_key(request.body),))


def _id_of(source: Source, request: WebhookRequest) -> str:
    match source.kind:
        case "github":
            return _required(request, GITHUB_ID)
        case "standard":
            return _required(request, standard.ID_HEADER)
        case "stripe":
            return _text_in(request, "id")
        case "plain-hmac" if not (source.id_field or source.id_header):
            # Without an id, what is signed is the best one: a repeated request has it, too.
            return digest(plain_hmac.signed_content(source, request)).hex()
    if source.id_field:
        return _text_in(request, source.id_field)
    if source.id_header:
        return _required(request, source.id_header)
    return ""


def event_of(source: Source, request: WebhookRequest, identity: Identity) -> Event:
    """BadContent if the request has no key where the source has it, or a header that is not text."""
    return Event(
        topic=source.topic,
        key=_key(source, request),
        value=request.body,
        headers=_headers(source, request, identity.id, _event_type(source, request)),
    )


def dead_letter_of(
    source: Source, request: WebhookRequest, identity: Identity, reason: str, *, retry: bool, now_ms: int
) -> Event:
    """With as much of the body as a topic takes. `retry`: the sender sends the request again."""
    errors = {
        TOPIC_HEADER: source.topic,
        TIMESTAMP_HEADER: str(now_ms),
        GROUP_HEADER: f"webhook {source.name}",
        REASON_HEADER: reason,
    }
    if len(request.body) > LETTER_BYTES_MAX:
        errors[TRUNCATED_HEADER] = str(len(request.body))
    own = [(SOURCE_HEADER, source.name.encode())]
    if identity.id:
        own.append((ID_HEADER, identity.id.encode()))
    if retry:
        own.append((RETRY_HEADER, b"1"))
    return Event(
        topic=dead_letter_topic(source.topic),
        value=request.body[:LETTER_BYTES_MAX],
        headers=with_errors(own, errors),
    )


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:_DIGEST_BYTES]


def body_key(body: bytes) -> bytes:
    return digest(b"body:" + body)


def _key_of(message_id: str) -> bytes:
    return digest(b"id:" + message_id.encode())


def _key(source: Source, request: WebhookRequest) -> bytes | None:
    if source.key_header:
        return _required(request, source.key_header).encode()
    if not source.key_field:
        return None
    key = _text_in(request, source.key_field, characters_max=KEY_BYTES_MAX).encode()
    if len(key) > KEY_BYTES_MAX:
        raise BadContent(f"the key has more than {KEY_BYTES_MAX:,} bytes")
    return key


def _event_type(source: Source, request: WebhookRequest) -> str:
    """Empty if the request has none: an event does not need one."""
    header = source.event_header or (GITHUB_EVENT if source.kind == "github" else "")
    if header:
        return _optional(request, header)
    field = source.event_field or ("type" if source.kind in ("stripe", "standard") else "")
    if not field:
        return ""
    try:
        return _text_in(request, field)
    except BadContent:
        return ""


def _headers(
    source: Source, request: WebhookRequest, message_id: str, event_type: str
) -> tuple[tuple[str, bytes | None], ...]:
    found = {SOURCE_HEADER: source.name, ID_HEADER: message_id, EVENT_HEADER: event_type}
    for name in (CONTENT_TYPE_HEADER, *_COPIED.get(source.kind, ()), *source.headers):
        found.setdefault(name.lower(), _optional(request, name))
    return tuple((name, text.encode()) for name, text in found.items() if text)


def _required(request: WebhookRequest, header: str) -> str:
    text = _optional(request, header)
    if not text:
        raise BadContent(f"the header {header} is missing")
    return text


def _optional(request: WebhookRequest, header: str) -> str:
    """Empty if there is no such header."""
    try:
        value = request.header(header)
    except AmbiguousHeader:
        raise BadContent(f"the header {header} is there several times") from None
    text = header_text(value or b"")
    if text is None:
        raise BadContent(f"the header {header} is not printable ASCII")
    if len(text) > TEXT_CHARACTERS_MAX:
        raise BadContent(f"the header {header} has more than {TEXT_CHARACTERS_MAX} characters")
    return text


def _text_in(request: WebhookRequest, field: str, *, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """The text or the number at a place in the JSON of the body."""
    value: Any = _json(request.body)
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int | float):
        text = msgspec.json.encode(value).decode()
    elif isinstance(value, str):
        text = value
    else:
        raise BadContent(f"the body has no text or number in the field {field}")
    if not text:
        raise BadContent(f"the field {field} is empty")
    if len(text) > characters_max:
        raise BadContent(f"the field {field} has more than {characters_max:,} characters")
    return text


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadContent("the body is not JSON") from None
