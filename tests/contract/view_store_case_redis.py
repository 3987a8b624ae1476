"""Views in Redis, a server for each test: all of them have the same names."""

from __future__ import annotations

from typing import Any

import redis

from headrace.testing.redis_server import RedisServer
from headrace.testing.requirements import require_redis
from tests.contract.view_store_contract import Lab, ViewStoreCase, view_store_case


@view_store_case("redis")
def in_redis(lab: Lab) -> ViewStoreCase:
    require_redis()
    server = lab.stack.enter_context(RedisServer(appendonly="no"))

    def rows_by_name(name: str) -> list[dict[str, Any]]:
        with redis.Redis.from_url(server.address, protocol=2, decode_responses=True) as client:
            served = client.get(name)
            return [client.hgetall(f"{served}:{key}") for key in client.smembers(served)]

    return ViewStoreCase(kind="redis", at=server.address, rows_by_name=rows_by_name)
