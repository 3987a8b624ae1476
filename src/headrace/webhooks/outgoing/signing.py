"""The headers of Standard Webhooks: an id, the time of the attempt, and a signature for each valid secret.

A receiver compares the signature with its secret, and rejects a time that is minutes old. So each attempt is signed
with its own time, and during a rotation with two secrets.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence

from headrace.webhooks.secrets import Secret, standard_key

ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"


class Signer:
    """Signs with the secrets of one target."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._keys: Sequence[tuple[Secret, bytes]] = [(each, standard_key(each.text)) for each in secrets]

    def headers(self, message_id: str, body: bytes, now_ms: int) -> dict[str, str]:
        timestamp = str(now_ms // 1000)
        signed = b"".join((message_id.encode(), b".", timestamp.encode(), b".", body))
        signatures = [
            "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
            for secret, key in self._keys
            if secret.is_valid(now_ms)
        ]
        return {
            ID_HEADER: message_id,
            TIMESTAMP_HEADER: timestamp,
            SIGNATURE_HEADER: " ".join(signatures),
        }
