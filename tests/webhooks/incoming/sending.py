"""Requests as senders sign them, for tests."""

from __future__ import annotations

from typing import Any

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.sample import sample_of
from headrace.webhooks.incoming.source import HmacRule, Kind, Source
from headrace.webhooks.secrets import Secret

NOW_MS = 1_800_000_000_000
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
RULE = HmacRule(signed="{timestamp}.{body}", timestamp_header="x-time")

SIGNED_KINDS: tuple[Kind, ...] = ("github", "stripe", "standard", "plain-hmac")


def source(kind: Kind = "standard", **fields: Any) -> Source:
    made = Source(
        **{
            "name": "sample",
            "kind": kind,
            "topic": "t",
            "secrets": () if kind == "none" else (Secret(text=SECRET),),
            "hmac": RULE if kind == "plain-hmac" else None,
            **fields,
        }
    )
    made.check()
    return made


def signed(
    by: Source, *, message_id: str = "msg_1", now_ms: int = NOW_MS, body: bytes | None = None
) -> WebhookRequest:
    return sample_of(by, message_id=message_id, now_ms=now_ms, body=body).request()


def changed(request: WebhookRequest, *, body: bytes | None = None, **headers: bytes | None) -> WebhookRequest:
    """With another body, and with other headers or without some: `x_signature` is x-signature."""
    names = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    kept = [(name, value) for name, value in request.headers if name not in names]
    new = [(name, value) for name, value in names.items() if value is not None]
    return WebhookRequest(headers=[*kept, *new], body=request.body if body is None else body)


def header(request: WebhookRequest, name: str) -> bytes:
    value = request.header(name)
    assert value is not None
    return value
