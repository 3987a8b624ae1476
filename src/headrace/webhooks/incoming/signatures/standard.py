"""Standard Webhooks: `webhook-signature: v1,… v1,…`, HMACs of the id, the time and the body, in base64."""

from __future__ import annotations

import base64
import hashlib
import hmac

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures.verdict import (
    Rejected,
    Why,
    check_match,
    check_time,
    required,
    seconds,
)
from headrace.webhooks.incoming.source import Source
from headrace.webhooks.secrets import standard_key

ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"


def verify(source: Source, request: WebhookRequest, now_ms: int) -> None:
    message_id = required(request, ID_HEADER)
    timestamp = required(request, TIMESTAMP_HEADER)
    given = parse(required(request, SIGNATURE_HEADER))
    signed_s = seconds(timestamp)
    # With a dot in the id, the same signature would fit another id, another time and a longer body.
    if b"." in message_id:
        raise Rejected(Why.MALFORMED)
    expected = (signature(each, message_id, timestamp, request.body) for each in source.valid_secrets(now_ms))
    check_match(expected, given)
    check_time(signed_s, now_ms, source.tolerance_s)


def parse(header: bytes) -> list[bytes]:
    """The signatures of version 1. Others, such as v1a with public keys, are ignored."""
    versions = [each.partition(b",") for each in header.split(b" ")]
    if not all(comma for _version, comma, _signature in versions):
        raise Rejected(Why.MALFORMED)
    signatures = [value for version, _comma, value in versions if version == b"v1"]
    if not signatures:
        raise Rejected(Why.MISSING)
    return signatures


def signature(secret: str, message_id: bytes, timestamp: bytes, body: bytes) -> bytes:
    signed = b".".join((message_id, timestamp, body))
    return base64.b64encode(hmac.new(standard_key(secret), signed, hashlib.sha256).digest())
