"""Values encrypted with the key of a person."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.shredding import (
    BadCiphertext,
    KeyedCipher,
    KeyStore,
    SubjectShredded,
    create_master_key,
    is_encrypted,
)
from headrace.shredding.cipher import HEADER_BYTES


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> KeyedCipher:
    folder = tmp_path_factory.mktemp("keys")
    create_master_key(folder / "master.key")
    return KeyedCipher(KeyStore(folder / "keys.db", master=folder / "master.key"))


@settings(max_examples=30)
@given(subject=st.text(st.characters(codec="utf-8"), min_size=1), plaintext=st.binary(), context=st.binary())
def test_value_is_the_same_after_encryption_and_decryption(
    shared: KeyedCipher, subject: str, plaintext: bytes, context: bytes
) -> None:
    sealed = shared.encrypt(subject, plaintext, context=context)
    assert is_encrypted(sealed)
    assert shared.decrypt(sealed, context=context) == plaintext


def test_value_is_unreadable_when_the_key_is_destroyed(cipher: KeyedCipher) -> None:
    sealed, kept = cipher.encrypt("ada", b"one lamp"), cipher.encrypt("grace", b"two lamps")
    cipher.keys.destroy("ada")
    assert cipher.decrypt(sealed) is None
    assert cipher.decrypt(kept) == b"two lamps"
    with pytest.raises(SubjectShredded):
        cipher.encrypt("ada", b"three lamps")


def test_equal_values_have_different_ciphertexts(cipher: KeyedCipher) -> None:
    assert cipher.encrypt("ada", b"one lamp") != cipher.encrypt("ada", b"one lamp")


@pytest.mark.parametrize("position", [HEADER_BYTES, -1])
def test_changed_value_is_rejected(cipher: KeyedCipher, position: int) -> None:
    sealed = bytearray(cipher.encrypt("ada", b"one lamp"))
    sealed[position] ^= 1
    with pytest.raises(BadCiphertext, match="was changed"):
        cipher.decrypt(bytes(sealed))


def test_value_of_another_field_is_rejected(cipher: KeyedCipher) -> None:
    sealed = cipher.encrypt("ada", b"one lamp", context=b"name")
    with pytest.raises(BadCiphertext, match="another field"):
        cipher.decrypt(sealed, context=b"street")


def test_value_of_another_store_is_not_taken_for_a_destroyed_one(cipher: KeyedCipher, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    create_master_key(tmp_path / "b" / "master.key")
    other = KeyedCipher(KeyStore(tmp_path / "b" / "keys.db", master=tmp_path / "b" / "master.key"))
    with pytest.raises(BadCiphertext, match="another key store"):
        cipher.decrypt(other.encrypt("ada", b"one lamp"))


@pytest.mark.parametrize("value", [b"", b"plain", b"\x00HRE\x01short"])
def test_plain_value_is_rejected(cipher: KeyedCipher, value: bytes) -> None:
    assert not is_encrypted(value)
    with pytest.raises(BadCiphertext, match="is not encrypted"):
        cipher.decrypt(value)
