"""Receipts: the text that a client presents to acknowledge a message.

A receipt is signed with a key that only this process has, so that one which was cut, invented or issued elsewhere is
distinguished from one whose lock has ended, without any memory of it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets

import msgspec
from msgspec import Struct

from headrace.gateway.queues.errors import ForeignReceipt, WrongReceipt

CHARACTERS_MAX = 2_000
"""Names of topics and groups have at most 249 and 255 characters, of up to four bytes."""

_ISSUER_BYTES = 8
_SIGNATURE_BYTES = 16


class Receipt(Struct, frozen=True, array_like=True):
    topic: str
    group: str
    number: int
    """Of the lease, counted by the gateway."""


_DECODER = msgspec.msgpack.Decoder(Receipt)


class Receipts:
    """Those of this process."""

    def __init__(self) -> None:
        self._issuer = secrets.token_bytes(_ISSUER_BYTES)
        self._key = secrets.token_bytes(32)

    def text(self, receipt: Receipt) -> str:
        content = msgspec.msgpack.encode(receipt)
        return (
            base64.urlsafe_b64encode(self._issuer + self._signature(content) + content).decode().rstrip("=")
        )

    def read(self, text: str) -> Receipt:
        """Raises WrongReceipt or ForeignReceipt."""
        received = _decoded(text)
        issuer, signature = received[:_ISSUER_BYTES], received[_ISSUER_BYTES:][:_SIGNATURE_BYTES]
        content = received[_ISSUER_BYTES + _SIGNATURE_BYTES :]
        if issuer != self._issuer:
            raise ForeignReceipt(
                "the receipt was issued by another gateway, or before this one was restarted",
                hint="acknowledge a message where it was received; it is delivered again when its lock ends",
            )
        if not hmac.compare_digest(signature, self._signature(content)):
            raise _wrong()
        return _DECODER.decode(content)

    def _signature(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")[:_SIGNATURE_BYTES]


def _decoded(text: str) -> bytes:
    if len(text) > CHARACTERS_MAX:
        raise _wrong()
    try:
        received = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _wrong() from None
    if len(received) <= _ISSUER_BYTES + _SIGNATURE_BYTES:
        raise _wrong()
    return received


def _wrong() -> WrongReceipt:
    return WrongReceipt("the text is no receipt", hint="send it as `receive` returned it")
