"""AES-256 in GCM: a fresh nonce for each value, in front of its ciphertext."""

from __future__ import annotations

import secrets

from headrace.shredding.errors import BadKeyStore

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    raise BadKeyStore(
        f"encryption per person needs the package cryptography: {error}",
        hint="pip install 'headrace[crypto]'",
    ) from error

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
SEALING_BYTES = NONCE_BYTES + TAG_BYTES
"""How much longer a sealed value is."""


class NotSealed(Exception):
    """The bytes were sealed with another key or context, or were changed."""


def seal(key: bytes, plaintext: bytes, context: bytes) -> bytes:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes:
    if len(sealed) < SEALING_BYTES:
        raise NotSealed
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
    except InvalidTag:
        raise NotSealed from None
