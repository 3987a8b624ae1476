"""Webhooks: the message as JSON, signed by Standard Webhooks if the address ends with `#whsec_…`.

The secret is the fragment of the address, which is never sent.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec
from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError

from headrace.alerts.errors import BadAlert
from headrace.alerts.message import Message
from headrace.alerts.rendering import Rendered
from headrace.alerts.targets import http_call
from headrace.alerts.targets.sender import Sender
from headrace.redaction import redacted

SECRET_PREFIX = "whsec_"


class WebhookSender(Sender):
    def __init__(self, address: str) -> None:
        self._url, _, secret = address.partition("#")
        try:
            host = urlsplit(self._url).hostname
        except ValueError:
            host = None
        if not host:
            raise BadAlert(f"{redacted(self._url)} names no host", hint="https://HOST/PATH")
        self._webhook = _webhook(secret) if secret else None

    def send(self, message: Message, content: Rendered) -> str:
        body = msgspec.json.encode(
            {
                "type": f"alert.{message.kind.value}",
                "title": content.title,
                "text": content.text,
                "data": message,
            }
        )
        headers = {"Content-Type": "application/json", "webhook-id": message.id}
        if self._webhook is not None:
            # Signed again at each attempt: receivers reject an old time.
            now_s = int(time.time())
            signed = self._webhook.sign(message.id, datetime.fromtimestamp(now_s, UTC), body.decode())
            headers |= {"webhook-timestamp": str(now_s), "webhook-signature": signed}
        http_call.post(self._url, body, headers)
        return ""


def _webhook(secret: str) -> Webhook:
    if not secret.startswith(SECRET_PREFIX):
        raise BadAlert("the fragment of a webhook is not a secret", hint="https://HOST/PATH#whsec_BASE64")
    try:
        return Webhook(secret)
    except (ValueError, EmptyWebhookSecretError) as error:
        raise BadAlert(f"the secret of a webhook is not valid: {error}", hint="whsec_ and base64") from error
