"""Keys in Redis: hashes by key, and members of sorted sets. Its own files have old values until they are rewritten."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.subject import Subject
from headrace.redaction import redacted

RESPONSE_TIMEOUT_S = 30.0
REWRITE_S_MAX = 600.0
"""How long Redis may take to write its files again."""

KEYS_PER_SCAN = 1000


class RedisKeys:
    """What the sink `Redis(name, key=…)` writes: the hash `name:KEY`, or the member KEY of its sorted sets."""

    def __init__(self, address: str, prefix: str, column: str) -> None:
        self.name = f"{redacted(address)} {prefix}"
        self._address = address
        self._prefix = prefix
        self._column = column

    def remaining(self, subject: Subject) -> int:
        key = subject.column(self._column)
        with self._connect() as redis:
            in_sets = sum(redis.zscore(each, key) is not None for each in self._sorted_sets(redis))
            is_listed = self._has_list(redis) and redis.sismember(self._prefix, key)
            return int(redis.exists(f"{self._prefix}:{key}")) + in_sets + int(is_listed)

    def erase(self, subject: Subject) -> None:
        key = subject.column(self._column)
        with self._connect() as redis:
            redis.delete(f"{self._prefix}:{key}")
            for each in self._sorted_sets(redis):
                redis.zrem(each, key)
            if self._has_list(redis):
                redis.srem(self._prefix, key)
            self._rewrite_files(redis)

    def _has_list(self, redis: Any) -> bool:
        """Whether the sink lists the keys of its hashes in a set, as views do."""
        return bool(redis.type(self._prefix) == b"set")

    def _sorted_sets(self, redis: Any) -> Iterator[bytes]:
        escaped = "".join(f"\\{each}" if each in "*?[]\\^" else each for each in self._prefix)
        yield from (
            each
            for pattern in (escaped, f"{escaped}:*")
            for each in redis.scan_iter(match=pattern, count=KEYS_PER_SCAN, _type="zset")
        )

    def _rewrite_files(self, redis: Any) -> None:
        """The append-only file and the snapshot have the old values until Redis writes them again."""
        deadline_s = time.monotonic() + REWRITE_S_MAX
        is_appending = redis.info("persistence")["aof_enabled"]
        self._until_idle(redis, deadline_s)
        if is_appending:
            redis.bgrewriteaof()
            self._until_idle(redis, deadline_s)
        if redis.config_get("save").get("save"):
            redis.bgsave()
            self._until_idle(redis, deadline_s)

    def _until_idle(self, redis: Any, deadline_s: float) -> None:
        while True:
            found = redis.info("persistence")
            busy = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
            if not any(found.get(each) for each in busy):
                return
            if time.monotonic() > deadline_s:
                raise ErasureInterrupted(
                    f"{self.name}: Redis has not rewritten its files within {REWRITE_S_MAX:.0f} s",
                    hint="`headrace erase continue` looks again",
                )
            time.sleep(0.05)

    @contextlib.contextmanager
    def _connect(self) -> Iterator[Any]:
        try:
            import redis
        except ImportError as error:
            raise BadErasure(
                f"Redis needs its client: {error}", hint="pip install 'headrace[spark]'"
            ) from error
        try:
            client: Any = redis.Redis.from_url(self._address, socket_timeout=RESPONSE_TIMEOUT_S)
        except ValueError:
            raise BadErasure(f"{self.name} is not an address of Redis", hint="redis://HOST:PORT/0") from None
        try:
            yield client
        except redis.RedisError as error:
            raise ErasureInterrupted(f"{self.name}: {error}", hint="is Redis running?") from error
        finally:
            client.close()
