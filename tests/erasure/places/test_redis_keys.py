"""Keys in Redis: hash and members are gone, and the append-only file is rewritten without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from headrace.erasure.errors import ErasureInterrupted
from headrace.erasure.places.redis_keys import RedisKeys
from headrace.erasure.subject import Subject
from headrace.testing.redis_server import RedisServer
from headrace.testing.requirements import require_redis

SECRET = "Ada Lovelace, Dorset Street"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    require_redis()
    with RedisServer() as server:
        yield server


def bytes_on_disk(server: RedisServer) -> bytes:
    return b"".join(each.read_bytes() for each in Path(server.folder).rglob("appendonly*") if each.is_file())


def test_hash_and_members_and_their_bytes_are_gone(server: RedisServer) -> None:
    client = redis.Redis.from_url(server.address)
    client.hset("users:7", mapping={"name": SECRET})
    client.hset("users:8", mapping={"name": "Grace"})
    client.zadd("users", {"7": 1.0, "8": 2.0})
    client.zadd("users:oslo", {"7": 1.0})
    client.zadd("others", {"7": 1.0})
    place, subject = RedisKeys(server.address, "users", "id"), Subject(key='{"id": 7}')
    assert place.remaining(subject) == 3
    assert SECRET.encode() in bytes_on_disk(server)
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert SECRET.encode() not in bytes_on_disk(server)
    assert client.hget("users:8", "name") == b"Grace"
    assert client.zscore("others", "7") == 1.0
    client.close()


def test_redis_that_is_away_can_be_continued(server: RedisServer) -> None:
    place = RedisKeys("redis://user:secret@127.0.0.1:1/0", "users", "")
    with pytest.raises(ErasureInterrupted, match=r"127\.0\.0\.1:1/0") as raised:
        place.remaining(Subject(key="7"))
    assert "secret" not in str(raised.value)
