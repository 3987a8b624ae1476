"""Which store an address means, and what fsspec stores add."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.log.archive.fsspec_store import open_store
from headrace.log.archive.store import FolderStore


def test_folders_have_the_same_store_in_every_notation(tmp_path: Path) -> None:
    for address in (str(tmp_path), f"file://{tmp_path}"):
        store = open_store(address)
        assert isinstance(store, FolderStore)
        assert store.address == str(tmp_path)


def test_address_of_an_unknown_kind_is_rejected_with_a_hint() -> None:
    with pytest.raises(HeadraceError, match="nonsense") as error:
        open_store("nonsense://bucket/path")
    assert "fsspec" in error.value.hint


def test_without_fsspec_other_addresses_are_rejected_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_fsspec(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "fsspec":
            raise ImportError(name)
        return real_import(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", no_fsspec)
    with pytest.raises(HeadraceError, match="s3://bucket") as error:
        open_store("s3://bucket")
    assert "headrace[archive]" in error.value.hint


@pytest.mark.parametrize("password", ["secret", "se/cret", "se@cret", "se#cret"])
def test_password_of_an_address_is_not_shown(password: str) -> None:
    with pytest.raises(HeadraceError, match="can't be used") as rejected:
        open_store(f"nothing://user:{password}@host:1/path")
    assert "cret" not in str(rejected.value)
    store = open_store(f"memory://user:{password}@host/path")
    with pytest.raises(HeadraceError) as missing:
        store.read("object")
    assert "cret" not in f"{store.address} {missing.value}"
