"""GitHub: `X-Hub-Signature-256: sha256=…`, the HMAC of the body in hex. No time is signed."""

from __future__ import annotations

import hashlib
import hmac

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures.verdict import check_match, required
from headrace.webhooks.incoming.source import Source

SIGNATURE_HEADER = "x-hub-signature-256"


def verify(source: Source, request: WebhookRequest, now_ms: int) -> None:
    given = required(request, SIGNATURE_HEADER)
    check_match((signature(each, request.body) for each in source.valid_secrets(now_ms)), [given])


def signature(secret: str, body: bytes) -> bytes:
    return b"sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()
