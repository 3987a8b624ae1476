"""Web push: an encrypted message for the browser that gave the subscription."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from py_vapid import Vapid02
from pywebpush import WebPusher, WebPushException

from headrace.alerts.definition import Target
from headrace.alerts.errors import BadAlert
from headrace.alerts.message import Message, MessageKind
from headrace.alerts.rendering import Rendered
from headrace.alerts.targets import http_call
from headrace.alerts.targets.sender import Sender
from headrace.alerts.targets.vapid import VapidKeys

TEXT_CHARS_MAX = 1_500
"""A push service takes 4,096 bytes, encrypted; a character has up to 4 in the worst case, and mostly one."""

PAYLOAD_BYTES_MAX = 3_900

LIVES_S = 86_400
"""How long a push service keeps it for a device that is off."""

_HINT = "the file must have what `JSON.stringify(subscription)` gives in the browser"


class _Keys(Struct):
    p256dh: str
    auth: str


class _Subscription(Struct):
    endpoint: str
    keys: _Keys


class WebPushSender(Sender):
    def __init__(self, target: Target, keys: VapidKeys | None) -> None:
        if keys is None:
            raise BadAlert(
                "web push needs keys", hint="`headrace alert keys --contact mailto:you@example.com`"
            )
        self._keys = keys
        self._endpoint = endpoint_of(target)
        try:
            self._pusher = WebPusher(msgspec.to_builtins(_subscription(target)))
            self._pusher.encode(b"wrong keys fail only here")
        except (WebPushException, ValueError, IndexError) as error:
            raise BadAlert(f"the keys of the subscription are not valid: {error}", hint=_HINT) from error

    def send(self, message: Message, content: Rendered) -> str:
        body = bytes(self._pusher.encode(_payload(message, content))["body"])
        place = urlsplit(self._endpoint)
        vapid = Vapid02.from_pem(self._keys.private_pem.encode())
        claims = {"aud": f"{place.scheme}://{place.netloc}", "sub": self._keys.contact}
        headers = {
            **vapid.sign(claims),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(LIVES_S),
            "Urgency": "normal" if message.kind is MessageKind.RESOLVED else "high",
            # One that waits for the device is replaced by one with the same topic: a second attempt shows once.
            "Topic": _topic(message),
        }
        http_call.post(self._endpoint, body, headers, gone=frozenset({404, 410}))
        return ""


def endpoint_of(target: Target) -> str:
    endpoint = _subscription(target).endpoint
    try:
        place = urlsplit(endpoint)
    except ValueError as error:
        raise BadAlert(f"the endpoint of the subscription is not a URL: {error}", hint=_HINT) from error
    if place.scheme not in ("https", "http") or not place.hostname:
        raise BadAlert("the endpoint of the subscription is not a URL", hint=_HINT)
    return endpoint


def _subscription(target: Target) -> _Subscription:
    try:
        return msgspec.json.decode(target.subscription.encode(errors="replace"), type=_Subscription)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadAlert(f"the subscription is not valid: {error}", hint=_HINT) from error


def host_of(target: Target) -> str:
    return urlsplit(endpoint_of(target)).netloc.rpartition("@")[2]


def _topic(message: Message) -> str:
    """At most 32 characters of base64."""
    return message.id.replace(".", "-")[-32:]


def _payload(message: Message, content: Rendered) -> bytes:
    text = content.text
    while True:
        body = msgspec.json.encode(
            {
                "id": message.id,
                "alert": message.alert,
                "kind": message.kind.value,
                "title": content.title,
                "text": text[:TEXT_CHARS_MAX],
            }
        )
        if len(body) <= PAYLOAD_BYTES_MAX:
            return body
        text = text[: len(text[:TEXT_CHARS_MAX]) // 2]
