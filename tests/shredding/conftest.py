"""A key store with its master key, in a folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.shredding import KeyedCipher, KeyStore, create_master_key


@pytest.fixture
def master(tmp_path: Path) -> Path:
    create_master_key(tmp_path / "master.key")
    return tmp_path / "master.key"


@pytest.fixture
def store(tmp_path: Path, master: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys.db", master=master)


@pytest.fixture
def cipher(store: KeyStore) -> KeyedCipher:
    return KeyedCipher(store)
