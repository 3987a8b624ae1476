"""Encryption of values with the key of a person (AES-256 in GCM)."""

from __future__ import annotations

from headrace.shredding.errors import BadCiphertext
from headrace.shredding.key_store import KEY_ID_BYTES, KeyStore
from headrace.shredding.sealing import SEALING_BYTES, NotSealed, seal, unseal

MAGIC = b"\x00HRE\x01"
"""The start of every ciphertext, with the version of its layout: then key id, nonce, and ciphertext with its tag."""

HEADER_BYTES = len(MAGIC) + KEY_ID_BYTES


class KeyedCipher:
    """Encrypts and decrypts with one key per person.

    cipher = KeyedCipher(KeyStore("keys.db", master="master.key"))
    producer.produce("orders", key="o1", value=cipher.encrypt("ada", b"one lamp to Oslo"))
    cipher.decrypt(message.value())   # None once the key of ada is destroyed
    """

    def __init__(self, keys: KeyStore) -> None:
        self.keys = keys

    def encrypt(self, subject: str, plaintext: bytes, *, context: bytes = b"") -> bytes:
        """The ciphertext; it decrypts only with the same context, such as the name of a field."""
        key = self.keys.key_of(subject)
        header = MAGIC + key.id
        return header + seal(key.key, plaintext, header + context)

    def decrypt(self, ciphertext: bytes, *, context: bytes = b"") -> bytes | None:
        """The plaintext; None if the key was destroyed."""
        header, rest = ciphertext[:HEADER_BYTES], ciphertext[HEADER_BYTES:]
        if not is_encrypted(ciphertext):
            raise BadCiphertext(
                "the value is not encrypted by Headrace",
                hint="`is_encrypted` tells; plain values need no decryption",
            )
        try:
            key = self.keys.key(header[len(MAGIC) :])
        except LookupError:
            raise BadCiphertext(
                "the value was encrypted with a key of another key store",
                hint="open the store of its producer",
            ) from None
        if key is None:
            return None
        try:
            return unseal(key.key, rest, header + context)
        except NotSealed:
            raise BadCiphertext(
                "the value was changed after it was encrypted, or belongs to another field",
                hint="compare it with the record in the topic",
            ) from None


def is_encrypted(value: bytes) -> bool:
    return value.startswith(MAGIC) and len(value) >= HEADER_BYTES + SEALING_BYTES
