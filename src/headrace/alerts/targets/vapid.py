"""The key pair with which web push services recognize who sends (VAPID), in a file that only its owner reads."""

from __future__ import annotations

import base64

from msgspec import Struct


class VapidKeys(Struct, frozen=True, kw_only=True):
    private_pem: str
    public: str
    """for `applicationServerKey` in the browser"""
    contact: str
    """mailto: or https: address of who sends, which push services may use"""


def new_keys(contact: str) -> VapidKeys:
    # Only this command needs it, and it takes a tenth of a second.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    point = key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    return VapidKeys(
        private_pem=pem.decode(),
        public=base64.urlsafe_b64encode(point).rstrip(b"=").decode(),
        contact=contact,
    )
