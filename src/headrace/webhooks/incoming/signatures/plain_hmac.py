"""Any other HMAC: the source says in which header, of what, and how it is written."""

from __future__ import annotations

import base64
import hmac
import re

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures.verdict import check_match, check_time, required, seconds
from headrace.webhooks.incoming.source import HmacRule, Source

_PLACEHOLDER = re.compile(rb"\{(body|timestamp|id)\}")


def verify(source: Source, request: WebhookRequest, now_ms: int) -> None:
    assert source.hmac is not None
    given = _canonical(source.hmac, required(request, source.hmac.header))
    signed = signed_content(source, request)
    expected = (signature(source.hmac, each, signed) for each in source.valid_secrets(now_ms))
    check_match((_canonical(source.hmac, each) for each in expected), [given])
    if source.hmac.timestamp_header:
        signed_s = seconds(required(request, source.hmac.timestamp_header))
        check_time(signed_s, now_ms, source.tolerance_s)


def _canonical(rule: HmacRule, given: bytes) -> bytes:
    """Senders write digits of hex in both cases, and base64url with and without padding."""
    prefix, rest = given[: len(rule.prefix)], given[len(rule.prefix) :]
    match rule.encoding:
        case "hex":
            return prefix + rest.lower()
        case "base64url":
            return prefix + rest.rstrip(b"=")
        case "base64":
            return given


def signed_content(source: Source, request: WebhookRequest) -> bytes:
    rule = source.hmac
    assert rule is not None
    values = {b"body": request.body}
    if "timestamp" in rule.placeholders:
        values[b"timestamp"] = required(request, rule.timestamp_header)
    if "id" in rule.placeholders:
        values[b"id"] = required(request, source.id_header)
    # One pass: what a value has in braces is not replaced again.
    return _PLACEHOLDER.sub(lambda found: values[found[1]], rule.signed.encode())


def signature(rule: HmacRule, secret: str, signed: bytes) -> bytes:
    digest = hmac.new(secret.encode(), signed, rule.algorithm).digest()
    match rule.encoding:
        case "hex":
            encoded = digest.hex().encode()
        case "base64":
            encoded = base64.b64encode(digest)
        case "base64url":
            encoded = base64.urlsafe_b64encode(digest)
    return rule.prefix.encode() + encoded
