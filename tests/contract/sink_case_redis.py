"""The `Redis` sink against the contract: hashes in a real Redis."""

from __future__ import annotations

from functools import partial
from typing import Any

import redis
from pyspark.sql.types import DataType, StructType

from headrace.pipeline.sinks.redis import Redis
from headrace.testing.redis_server import RedisServer
from tests.contract.sink_contract import Lab, Row, SinkCase, as_python, row, sink_case


@sink_case("redis")
def hashes(lab: Lab) -> SinkCase:
    return _case(lab, Redis(lab.name, key="id").driver_rows_max)


@sink_case("redis-by-tasks")
def hashes_by_tasks(lab: Lab) -> SinkCase:
    return _case(lab, 0)


def _case(lab: Lab, driver_rows_max: int) -> SinkCase:
    server: RedisServer = lab.fixture("redis_server")
    return SinkCase(
        sink=lambda: Redis(lab.name, key="id", at=server.address, driver_rows_max=driver_rows_max),
        read=partial(rows_in_redis, server.address, lab.name),
        rejected=row(None),  # type: ignore[arg-type]
        is_atomic=False,
    )


def rows_in_redis(address: str, name: str, schema: StructType) -> list[Row]:
    with redis.Redis.from_url(address) as client:
        hashes = [client.hgetall(key) for key in client.scan_iter(f"{name}:*", count=1000)]
    return [
        {field.name: _value(each.get(field.name.encode()), field.dataType) for field in schema}
        for each in hashes
    ]


def _value(kept: bytes | None, kind: DataType) -> Any:
    """Redis keeps bytes, and nothing of a null."""
    if kept is None or kind.typeName() == "binary":
        return kept
    if kind.typeName() == "daytimeinterval":
        return as_python(int(kept), kind)
    return as_python(kept.decode(), kind)
