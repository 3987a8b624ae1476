"""Stripe: `Stripe-Signature: t=…,v1=…,v1=…`, HMACs of the time, a dot and the body, in hex."""

from __future__ import annotations

import hashlib
import hmac

from msgspec import Struct

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

SIGNATURE_HEADER = "stripe-signature"


class StripeSignature(Struct, frozen=True):
    timestamp: bytes
    signatures: list[bytes]


def verify(source: Source, request: WebhookRequest, now_ms: int) -> None:
    parsed = parse(required(request, SIGNATURE_HEADER))
    signed_s = seconds(parsed.timestamp)
    expected = (signature(each, parsed.timestamp, request.body) for each in source.valid_secrets(now_ms))
    check_match(expected, parsed.signatures)
    check_time(signed_s, now_ms, source.tolerance_s)


def parse(header: bytes) -> StripeSignature:
    """Schemes other than v1 are ignored: v0 is not signed with the secret of an endpoint."""
    times: list[bytes] = []
    signatures: list[bytes] = []
    for part in header.split(b","):
        name, equals, value = part.strip(b" ").partition(b"=")
        if not equals:
            raise Rejected(Why.MALFORMED)
        if name == b"t":
            times.append(value)
        elif name == b"v1":
            signatures.append(value)
    if len(times) > 1:
        raise Rejected(Why.AMBIGUOUS)
    if not times or not signatures:
        raise Rejected(Why.MISSING)
    return StripeSignature(times[0], signatures)


def signature(secret: str, timestamp: bytes, body: bytes) -> bytes:
    # The whole secret is the key, whsec_ included.
    return hmac.new(secret.encode(), timestamp + b"." + body, hashlib.sha256).hexdigest().encode()
