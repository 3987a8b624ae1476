"""Addresses of places, as the command line has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.erasure.errors import BadErasure
from headrace.erasure.places.addresses import place_at


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("sqlite:///data/views.db?table=users&column=id", "sqlite data/views.db users.id"),
        ("sqlite:////srv/views.db?table=users&column=id", "sqlite /srv/views.db users.id"),
        ("postgresql://u:pw@h:5/d?table=s.t&column=c&sslmode=require", "postgresql://h:5/d s.t.c"),
        ("redis://:pw@h:6379/0?prefix=users", "redis://h:6379/0 users"),
        ("delta:////srv/users?column=id", "delta /srv/users id"),
        ("parquet:////srv/users?column=id", "parquet /srv/users id"),
        ("opensearch://u:pw@h:9200?index=users&column=id", "opensearch http://h:9200 users.id"),
        ("opensearch+https://u:pw@h?index=users&column=id", "opensearch https://h users.id"),
    ],
)
def test_name_of_a_place_has_no_password(address: str, name: str) -> None:
    assert place_at(address).name == name


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("views.db", "views.db is not a place"),
        ("mysql://u:secret@h/d?table=t&column=c", "mysql://h/d is not a place"),
        ("sqlite:///views.db?table=t", "does not name its column"),
        ("redis://h/0", "does not name its prefix"),
        ("opensearch://u:secret@h?column=id", "opensearch://h does not name its index"),
        ("parquet:///users", "does not name its column"),
        ("search:///nowhere?column=c", "there is no index in nowhere"),
    ],
)
def test_address_that_cannot_be_erased_is_an_error(address: str, problem: str) -> None:
    with pytest.raises(BadErasure, match=problem) as raised:
        place_at(address)
    assert "secret" not in str(raised.value)


def test_path_is_relative_after_three_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_at("sqlite:///a b.db?table=t&column=c").name == "sqlite a b.db t.c"
