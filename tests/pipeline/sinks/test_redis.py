"""`Redis`: what is in Redis afterwards, whatever happens to Redis or to the writer; on a real Redis."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
import redis
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Redis, redis_client
from headrace.pipeline.sinks.sink import RejectedRow, SinkWriter
from headrace.testing.redis_server import RedisServer
from headrace.testing.requirements import require_redis


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    with redis.Redis.from_url(redis_server.address, decode_responses=True) as client:
        client.flushdb()
        yield client


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A Redis that a test may stop."""
    require_redis()
    with RedisServer() as server:
        yield server


def fence(batch_id: int, checkpoint: str = "first") -> Fence:
    return Fence(job="job", checkpoint=checkpoint, batch_id=batch_id)


def opened(sink: Redis, columns: Iterable[str]) -> SinkWriter:
    schema = StructType()
    for name in columns:
        schema = schema.add(name, "string")
    return sink.open("job", schema)


def reject_none(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(f"nothing should be rejected, and {rows} was")


def batches(*rows: dict[str, Any]) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist(list(rows)).to_batches() if rows else []


# What is in Redis


def test_row_is_a_hash_without_its_nulls(redis_server: RedisServer, client: Any) -> None:
    writer = opened(Redis("users", key="id", at=redis_server.address), ["id", "city", "n"])
    writer.apply(batches({"id": "a:b", "city": "Rome", "n": 1, "_offset": 5}), fence(0), reject_none)
    assert client.hgetall("users:a:b") == {"id": "a:b", "city": "Rome", "n": "1"}
    writer.apply(batches({"id": "a:b", "city": None, "n": 2}), fence(1), reject_none)
    assert client.hgetall("users:a:b") == {"id": "a:b", "n": "2"}


def test_listed_hashes_are_those_in_the_set(redis_server: RedisServer, client: Any) -> None:
    sink = Redis("users", key=("id", "city"), listed=True, at=redis_server.address)
    writer = opened(sink, ["id", "city", "op"])
    rows = [{"op": "c", "id": each, "city": "a:b"} for each in "ab"]
    writer.apply(batches(*rows), fence(0), reject_none)
    writer.apply(batches({"op": "d", "id": "a", "city": "a:b"}), fence(1), reject_none)
    (key,) = client.smembers("users")
    assert client.hgetall(f"users:{key}") == {"id": "b", "city": "a:b"}
    writer.clear()
    assert client.exists("users") == 0


def test_sorted_set_is_in_the_order_of_its_scores(redis_server: RedisServer, client: Any) -> None:
    writer = opened(Redis("top", key="url", score="n", at=redis_server.address), ["url", "n", "op"])
    writer.apply(
        batches(*({"url": u, "n": n, "op": "u"} for u, n in (("/a", 1), ("/b", 5), ("/c", 3)))),
        fence(0),
        reject_none,
    )
    writer.apply(
        batches({"url": "/a", "n": 9, "op": "u"}, {"url": "/b", "n": None, "op": "d"}), fence(1), reject_none
    )
    assert client.zrevrange("top", 0, -1, withscores=True) == [("/a", 9.0), ("/c", 3.0)]


def test_hash_expires(redis_server: RedisServer, client: Any) -> None:
    writer = opened(Redis("users", key="id", expire_s=1000, at=redis_server.address), ["id"])
    writer.apply(batches({"id": "a"}), fence(0), reject_none)
    assert 0 < client.ttl("users:a") <= 1000


def test_clear_leaves_the_keys_of_others(redis_server: RedisServer, client: Any) -> None:
    client.set("users-2:a", "theirs")
    client.set("user[s]", "theirs")
    writer = opened(Redis("user*", key="id", at=redis_server.address), ["id"])
    writer.apply(batches({"id": "a"}, {"id": "b"}), fence(0), reject_none)
    writer.clear()
    left = set(client.scan_iter())
    assert left == {"users-2:a", "user[s]", "headrace:fence:user*:job", "headrace:sinks"}
    assert writer.applied() is None


# Rows that Redis rejects


def test_row_without_a_key_or_a_score_is_rejected_once(redis_server: RedisServer, client: Any) -> None:
    sink = Redis("top", key=["a", "b"], score="n", at=redis_server.address)
    rejected: list[RejectedRow] = []
    rows: list[dict[str, Any]] = [
        {"a": "x", "b": "y", "n": 1.0},
        {"a": None, "b": None, "n": None},
        {"a": "x", "b": "z", "n": None},
    ]
    rows.append({"a": "x", "b": "nan", "n": float("nan")})
    assert opened(sink, ["a", "b", "n"]).apply(batches(*rows), fence(0), rejected.extend) == 1
    assert client.zrange("top", 0, -1) == ["x:y"]
    assert sorted(each.reason for each in rejected) == ["a is null", "n is null", "n is null"]


def test_row_whose_key_has_another_type_in_redis_is_rejected(redis_server: RedisServer, client: Any) -> None:
    client.set("users:b", "a text")
    rejected: list[RejectedRow] = []
    writer = opened(Redis("users", key="id", at=redis_server.address), ["id", "n"])
    written = writer.apply(batches({"id": "a", "n": 1}, {"id": "b", "n": None}), fence(0), rejected.extend)
    assert (written, client.hget("users:a", "n"), client.get("users:b")) == (1, "1", "a text")
    assert [each.row["id"] for each in rejected] == ["b"]
    assert "WRONGTYPE" in rejected[0].reason


# Redis that is restarted, and other writers


def test_redis_that_is_restarted_under_a_writer_has_every_batch(own_server: RedisServer) -> None:
    """It is killed several times while a writer continues."""
    writer = opened(Redis("counts", key="id", at=own_server.address), ["id", "n"])

    def restart() -> None:
        for _ in range(5):
            time.sleep(0.1)
            own_server.kill()
            own_server.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    last = 0
    while restarting.is_alive() or last < 20:
        rows = batches(
            *({"id": str(each), "n": last} for each in range(50)), {"id": f"only {last}", "n": last}
        )
        assert writer.apply(rows, fence(last), reject_none) == 51
        last += 1
    restarting.join()
    with redis.Redis.from_url(own_server.address, decode_responses=True) as client:
        assert {client.hget(f"counts:{each}", "n") for each in range(50)} == {str(last - 1)}
        assert all(client.hget(f"counts:only {each}", "n") == str(each) for each in range(last))
    assert writer.applied() == fence(last - 1)


def test_lost_batches_are_an_error(own_server: RedisServer) -> None:
    sink = Redis("counts", key="id", at=own_server.address)
    writer = opened(sink, ["id"])
    writer.apply(batches({"id": "a"}), fence(0), reject_none)
    with redis.Redis.from_url(own_server.address) as client:
        backup = client.hgetall("headrace:fence:counts:job")
        writer.apply(batches({"id": "b"}), fence(1), reject_none)
        client.hset("headrace:fence:counts:job", mapping=backup)
        with pytest.raises(BadSink, match=r"up to 0 .* at batch 2"):
            writer.apply(batches({"id": "c"}), fence(2), reject_none)
        with pytest.raises(BadSink, match="--rebuild"):
            opened(sink, ["id"]).apply(batches({"id": "c"}), fence(2), reject_none)
        writer = opened(sink, ["id"])
        client.flushall()
        with pytest.raises(BadSink, match="nothing of job"):
            writer.apply(batches({"id": "b"}), fence(1), reject_none)


def test_fenced_writer_changes_nothing(redis_server: RedisServer, client: Any) -> None:
    sink = Redis("users", key="id", at=redis_server.address)
    fenced = opened(sink, ["id", "n"])
    fenced.apply(batches({"id": "a", "n": 1}), fence(0), reject_none)
    opened(sink, ["id", "n"]).apply(batches({"id": "a", "n": 2}), fence(1), reject_none)
    with pytest.raises(SinkUnavailable, match="another process"):
        fenced.apply(batches({"id": "a", "n": 1}), fence(1), reject_none)
    assert client.hget("users:a", "n") == "2"


def test_unavailable_redis_is_named(own_server: RedisServer) -> None:
    writer = opened(Redis("users", key="id", at=own_server.address, timeout_s=0), ["id"])
    own_server.stop()
    with pytest.raises(SinkUnavailable, match="is it running"):
        writer.apply(batches({"id": "a"}), fence(0), reject_none)


def test_large_batch_is_written_in_several_transactions(
    redis_server: RedisServer, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_client, "COMMANDS_PER_TRANSACTION_MAX", 7)
    writer = opened(Redis("users", key="id", at=redis_server.address), ["id"])
    rows = batches(*({"id": str(each)} for each in range(50)))
    assert writer.apply(rows, fence(0), reject_none) == 50
    assert len(list(client.scan_iter("users:*"))) == 50
    assert json.loads(client.hget("headrace:fence:users:job", "fence"))["batch"] == 0


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"key": ()}, "key"),
        ({"key": "id", "per": "x"}, "score"),
        ({"key": "id", "expire_s": 0}, "expire_s"),
        ({"key": "id", "expire_s": 9, "listed": True}, "do not expire"),
        ({"key": "id", "at": "http://there"}, "redis://"),
    ],
)
def test_wrong_option_is_named(wrong: dict[str, Any], names: str) -> None:
    with pytest.raises(BadSink, match=names):
        opened(Redis("users", **wrong), ["id"])


def test_error_names_the_missing_column_and_the_existing_ones() -> None:
    with pytest.raises(BadSink, match=r"redis users: the rows have no column user .*id, n"):
        opened(Redis("users", key="user"), ["id", "n"])


@pytest.mark.parametrize("password", ["se/cret", "se#cret", "se?cret"])
def test_password_that_is_not_escaped_is_not_shown(password: str) -> None:
    sink = Redis("c", key="id", at=f"redis://:{password}@127.0.0.1:1/0")
    assert "cret" not in repr(sink)
    with pytest.raises(BadSink, match="not an address of Redis") as rejected:
        sink.open("job", StructType().add("id", "string"))
    assert rejected.value.message == "redis://… is not an address of Redis"
    assert rejected.value.__cause__ is None
    assert "%40" in rejected.value.hint
