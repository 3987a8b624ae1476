"""Sealed values: only the same key and the same context open them."""

from __future__ import annotations

import secrets

import pytest

from headrace.shredding.sealing import KEY_BYTES, SEALING_BYTES, NotSealed, seal, unseal

KEY = bytes(range(KEY_BYTES))


def test_sealed_value_is_opened_again() -> None:
    sealed = seal(KEY, b"one lamp", b"name")
    assert len(sealed) == len(b"one lamp") + SEALING_BYTES
    assert unseal(KEY, sealed, b"name") == b"one lamp"


def test_other_key_other_context_and_other_bytes_are_rejected() -> None:
    sealed = seal(KEY, b"one lamp", b"name")
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for key, value, context in [
        (secrets.token_bytes(KEY_BYTES), sealed, b"name"),
        (KEY, sealed, b"street"),
        (KEY, changed, b"name"),
        (KEY, sealed[:10], b"name"),
        (KEY, b"", b"name"),
    ]:
        with pytest.raises(NotSealed):
            unseal(key, value, context)


def test_format_is_that_of_aes_in_gcm() -> None:
    """A value that another implementation of AES sealed (pycryptodome)."""
    from Crypto.Cipher import AES

    cipher = AES.new(KEY, AES.MODE_GCM, nonce=bytes(12))
    cipher.update(b"name")
    ciphertext, tag = cipher.encrypt_and_digest(b"one lamp")
    assert unseal(KEY, bytes(12) + ciphertext + tag, b"name") == b"one lamp"
