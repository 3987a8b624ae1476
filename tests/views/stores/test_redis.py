"""What only views in Redis do; `tests/contract` checks the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from headrace.testing import RedisServer, free_port
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.stores.redis import RedisViews
from tests.contract.other_view_stores import redis_place, row


def test_name_is_a_string_that_other_programs_read(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place = redis_place(request, tmp_path)
    name = place.definition.name
    place.build(1, [row("Oslo", 3)])
    place.store().switch(1)
    with redis.Redis.from_url(place.definition.at, protocol=2, decode_responses=True) as client:
        assert client.get(name) == f"{name}__1"
        assert client.hgetall(f"{name}__1:Oslo") == {"city": "Oslo", "users": "3"}
        assert client.smembers(f"{name}__1") == {"Oslo"}


def test_dropped_version_is_dropped_again_after_a_crash(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Its entry is deleted last, so that it is found."""
    place = redis_place(request, tmp_path)
    place.build(1, [row(f"city {number}") for number in range(10)])
    name = place.definition.physical(1)
    with redis.Redis.from_url(place.definition.at, protocol=2) as client:
        client.delete(f"headrace:fence:{name}:view.{place.definition.name}.1", f"{name}:city 3")
        store = place.store()
        assert store.versions() == [1]
        store.drop(1)
    assert place.left() == []


def test_server_that_is_away_is_unavailable_without_the_password(tmp_path: Path) -> None:
    at = f"redis://ada:secret@127.0.0.1:{free_port()}/0"
    store = RedisViews(_definition(at), tmp_path)
    with pytest.raises(ViewUnavailable, match="no response from Redis") as raised:
        store.check()
    assert "secret" not in str(raised.value)
    with pytest.raises(BadView, match="is not an address"):
        RedisViews(_definition("http://127.0.0.1"), tmp_path).check()


def test_wrong_password_is_for_a_person(tmp_path: Path) -> None:
    with RedisServer(appendonly="no") as server:
        redis.Redis.from_url(server.address).config_set("requirepass", "right")
        store = RedisViews(_definition(f"{server.address}?password=wrong"), tmp_path)
        with pytest.raises(BadView, match="rejects the user"):
            store.check()


def test_replica_is_not_a_place_for_a_view(tmp_path: Path) -> None:
    with (
        RedisServer(appendonly="no", replicaof=f"127.0.0.1 {free_port()}") as server,
        pytest.raises(BadView, match="is a slave and cannot be written"),
    ):
        RedisViews(_definition(server.address), tmp_path).check()


def _definition(at: str) -> Definition:

    return Definition(name="users", topics=("t",), key=("id",), store="redis", at=at)
