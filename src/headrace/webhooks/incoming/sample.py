"""A signed request as the sender of a source would send it, to try a source without its sender."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from headrace.webhooks.incoming.event_of import GITHUB_EVENT, GITHUB_ID
from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures import github, plain_hmac, standard, stripe
from headrace.webhooks.incoming.source import Source

SAMPLE_TYPE = "headrace.test"


class Sample(Struct, frozen=True, kw_only=True):
    headers: Mapping[str, str]
    body: bytes

    def request(self) -> WebhookRequest:
        """As it arrives."""
        headers = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        return WebhookRequest(headers=headers, body=self.body)

    def curl(self, url: str) -> str:
        """The command that sends it. It has the signature, and not the secret."""
        words = ["curl", "--data-binary", self.body.decode(errors="surrogateescape")]
        for name, value in self.headers.items():
            words += ["-H", f"{name}: {value}"]
        return shlex.join([*words, url])


def sample_of(
    source: Source, *, message_id: str, now_ms: int, body: bytes | None = None, event: str = SAMPLE_TYPE
) -> Sample:
    """With the newest secret. Without a body of its own, it has an id, a type, and the fields that the source reads."""
    content = _sample_body(source, message_id, event) if body is None else body
    headers = {"Content-Type": "application/json", **_places(source, message_id, event)}
    return Sample(headers=headers | _signature(source, headers, message_id, now_ms, content), body=content)


def _sample_body(source: Source, message_id: str, event: str) -> bytes:
    body: dict[str, object] = {"id": message_id, "type": event}
    fields = {source.event_field: event, source.key_field: "test", source.id_field: message_id}
    for field, value in fields.items():
        if field:
            _set(body, field.split("."), value)
    return msgspec.json.encode(body)


def _set(body: dict[str, object], names: list[str], value: str) -> None:
    *outer, last = names
    for name in outer:
        inner = body.get(name)
        if not isinstance(inner, dict):
            inner = body[name] = {}
        body = inner
    body[last] = value


def _places(source: Source, message_id: str, event: str) -> dict[str, str]:
    """The headers in which the source looks for the key, the id and the type."""
    wanted = {source.key_header: "test", source.event_header: event, source.id_header: message_id}
    if source.kind == "github":
        wanted |= {GITHUB_EVENT: event, GITHUB_ID: message_id}
    return {name: value for name, value in wanted.items() if name}


def _signature(
    source: Source, headers: Mapping[str, str], message_id: str, now_ms: int, body: bytes
) -> dict[str, str]:
    secret = source.secrets[0].text if source.secrets else ""
    timestamp = str(now_ms // 1000)
    match source.kind:
        case "github":
            return {github.SIGNATURE_HEADER: github.signature(secret, body).decode()}
        case "stripe":
            signature = stripe.signature(secret, timestamp.encode(), body).decode()
            return {stripe.SIGNATURE_HEADER: f"t={timestamp},v1={signature}"}
        case "standard":
            signature = standard.signature(secret, message_id.encode(), timestamp.encode(), body).decode()
            return {
                standard.ID_HEADER: message_id,
                standard.TIMESTAMP_HEADER: timestamp,
                standard.SIGNATURE_HEADER: f"v1,{signature}",
            }
        case "plain-hmac":
            rule = source.hmac
            assert rule is not None
            own = {rule.timestamp_header: timestamp} if rule.timestamp_header else {}
            unsigned = Sample(headers={**headers, **own}, body=body).request()
            signed = plain_hmac.signed_content(source, unsigned)
            return {**own, rule.header: plain_hmac.signature(rule, secret, signed).decode()}
        case "none":
            return {}
