from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.stores.address_versions import AddressVersions

DEFINITION = Definition(name="users", topics=("t",), key=("id",), store="lake")


def test_switch_is_a_commit_of_the_table_that_has_the_name(tmp_path: Path) -> None:
    versions = AddressVersions(DEFINITION, f"file://{tmp_path}/", {})
    for version in (1, 2):
        write_deltalake(versions.path(version), pa.table({"id": ["a"]}))
        versions.switch(version)
    pointer = DeltaTable(f"file://{tmp_path}/users")
    assert pointer.to_pyarrow_table().to_pylist() == [{"served": "users__2"}]
    assert pointer.version() == 1
    assert AddressVersions(DEFINITION, f"file://{tmp_path}", {}).served() == 2


def test_unknown_kind_of_address_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ViewUnavailable, match="nowhere://user"):
        AddressVersions(DEFINITION, "nowhere://user", {}).check()


def test_password_of_an_address_is_not_in_the_error() -> None:
    with pytest.raises((BadView, ViewUnavailable)) as raised:
        AddressVersions(DEFINITION, "nowhere://ada:secret@host/x", {}).versions()
    assert "secret" not in str(raised.value)
