"""A real Redis: what it has acknowledged survives a kill, unless its settings say otherwise."""

from __future__ import annotations

import redis

from headrace.testing import RedisServer
from headrace.testing.requirements import require_redis


def test_acknowledged_write_survives_a_kill() -> None:
    require_redis()
    with RedisServer() as server:
        redis.Redis.from_url(server.address).set("k", "v")
        server.kill()
        server.start()
        assert redis.Redis.from_url(server.address).get("k") == b"v"


def test_settings_of_redis_apply() -> None:
    require_redis()
    with RedisServer(appendonly="no", maxmemory="7mb") as server:
        client = redis.Redis.from_url(server.address)
        assert client.config_get("maxmemory") == {"maxmemory": str(7 * 1024 * 1024)}
        client.set("k", "v")
        server.kill()
        server.start()
        assert redis.Redis.from_url(server.address).get("k") is None
