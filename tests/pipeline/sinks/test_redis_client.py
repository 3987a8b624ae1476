"""The connection of the `Redis` sink. `test_redis.py` restarts Redis under it."""

from __future__ import annotations

import pytest

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.redis_client import FencedRedis, RedisTarget
from headrace.pipeline.sinks.redis_commands import Command
from headrace.testing.redis_server import RedisServer


def fence(batch_id: int) -> Fence:
    return Fence(job="job", checkpoint="first", batch_id=batch_id)


def target(server: RedisServer, name: str, owner: str = "me") -> RedisTarget:
    return RedisTarget(at=server.address, name=name, job="job", owner=owner, timeout_s=5)


def command(*words: str) -> Command:
    return Command(words=words, row=lambda: {"words": words})


def test_commands_after_the_fence_change_nothing(redis_server: RedisServer, name: str) -> None:
    """As those of a task that Spark has given up, and that goes on."""
    redis = FencedRedis(target(redis_server, name))
    redis.own()
    assert redis.write([command("SET", f"{name}:a", "1")], fence(0)) == []
    redis.write_fence(fence(0))
    assert FencedRedis(target(redis_server, name)).write([command("SET", f"{name}:a", "2")], fence(0)) == []
    assert redis.client.get(f"{name}:a") == b"1"
    assert redis.covers(fence(0))
    assert not redis.covers(fence(1))


def test_commands_of_another_owner_are_fenced(redis_server: RedisServer, name: str) -> None:
    FencedRedis(target(redis_server, name, owner="newer")).own()
    with pytest.raises(SinkUnavailable, match="another process"):
        FencedRedis(target(redis_server, name, owner="older")).write([command("PING")], fence(0))


def test_command_that_redis_rejects_is_one_rejected_row(redis_server: RedisServer, name: str) -> None:
    redis = FencedRedis(target(redis_server, name))
    redis.own()
    words = [command("SET", f"{name}:a", "text"), command("HSET", f"{name}:a", "field", "1")]
    (rejected,) = redis.write(words, fence(0))
    assert rejected.row["words"][0] == "HSET"
    assert "WRONGTYPE" in rejected.reason


def test_address_is_not_shown() -> None:
    secret = RedisTarget(at="redis://:hidden@127.0.0.1:1/0", name="n", job="j", owner="o", timeout_s=0)
    assert "hidden" not in repr(secret)
    with pytest.raises(SinkUnavailable) as failed:
        FencedRedis(secret).fence()
    assert "hidden" not in str(failed.value)
    with pytest.raises(BadSink) as rejected:
        FencedRedis(RedisTarget(at="http://:hidden@x", name="n", job="j", owner="o", timeout_s=0))
    assert "hidden" not in str(rejected.value)
