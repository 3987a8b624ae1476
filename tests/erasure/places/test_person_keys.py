"""The key store as a place: its keys are found and destroyed."""

from __future__ import annotations

from pathlib import Path

from headrace.erasure.places.person_keys import PersonKeys
from headrace.erasure.subject import Subject
from headrace.shredding import KeyedCipher, KeyStore, create_master_key


def test_key_is_destroyed_without_the_master_key(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    cipher = KeyedCipher(KeyStore(tmp_path / "keys.db", master=tmp_path / "master.key"))
    sealed = cipher.encrypt("7", b"Ada")
    place = PersonKeys(tmp_path / "keys.db")
    assert [place.remaining(Subject(key=each)) for each in ("7", '{"id": 7}', "8")] == [1, 1, 0]
    place.erase(Subject(key='{"id": 7}'))
    assert place.remaining(Subject(key="7")) == 0
    assert cipher.decrypt(sealed) is None
