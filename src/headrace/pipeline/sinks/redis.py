"""`Redis`: rows in Redis, as hashes by key or as members of sorted sets by score.

The sink and its writer, which keeps the fence. `redis_commands.py` turns rows into commands.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pyarrow as pa
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import changes
from headrace.pipeline.sinks.changes import table_of
from headrace.pipeline.sinks.redis_commands import Command, RedisLayout, Word
from headrace.pipeline.sinks.redis_registry import SINKS, RedisSinkEntry, fence_key
from headrace.pipeline.sinks.sink import OutputMode, Reject, RejectedRow, Sink, SinkWriter
from headrace.redaction import ESCAPE_HINT, redacted

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COMMANDS_PER_TRANSACTION_MAX = 20_000
"""Redis serves no other client during a transaction: about 20 ms for this many commands."""

KEYS_PER_REMOVAL = 5_000

RETRY_PAUSE_S = 0.2
TIMEOUT_S = 60.0
"""How long Redis may be unavailable, such as during a restart, before a batch fails."""

RESPONSE_TIMEOUT_S = 30.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Redis(Sink):
    """Rows by key.

        Redis("users", key="id")                                   # a hash users:<id> with a field for each column
        Redis("top_urls", key="url", score="count")                # a sorted set top_urls of urls by their count
        Redis("top_urls", key="url", score="count", per="country") # a sorted set top_urls:<country> for each country

    All keys that are `name`, or start with `name:`, belong to the sink.
    """

    name: str
    _: KW_ONLY
    key: str | Sequence[str] = ()
    score: str | None = None
    """The column that a sorted set is ordered by; None for hashes."""
    per: str | Sequence[str] = ()
    """Columns that have a sorted set for each of their values."""
    order_by: str | None = None
    """The column that orders the rows of a key within a batch: the row with the greatest value is written."""
    expire_s: int | None = None
    """Seconds after its last change when a hash, or a whole sorted set, expires."""
    listed: bool = False
    """Whether the set `name` has the keys of all hashes, so that they can be counted and listed without a scan of the
    whole database."""
    at: str = field(default="redis://127.0.0.1:6379/0", repr=False)  # it may have a password in it
    """Redis's address: redis://, rediss:// or unix://PATH."""
    timeout_s: float = TIMEOUT_S
    """How long Redis may be unavailable before a batch fails and the job restarts."""

    kind: ClassVar[str] = "redis"

    def __post_init__(self) -> None:
        self.set_names("key", "per")
        if not self.name:
            raise BadSink("a Redis sink needs a name", hint="its keys in Redis start with it")
        if not self.key:
            raise BadSink(f"redis {self.name} has no key", hint="name its columns: Redis(…, key=…)")
        if self.per and self.score is None:
            raise BadSink(
                f"redis {self.name}: `per` is for sorted sets", hint="give a `score`, or put it in the key"
            )
        if self.expire_s is not None and self.expire_s < 1:
            raise BadSink(
                f"expire_s={self.expire_s} would expire immediately", hint="at least 1, or None for never"
            )

        if self.listed and (self.score is not None or self.expire_s is not None):
            raise BadSink(
                f"redis {self.name}: only hashes that do not expire can be listed",
                hint="leave out `listed`, or `score` and `expire_s`",
            )

    def target(self) -> str:
        return f"redis {self.name}"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.check_columns((*self.key, *self.per, self.score, self.order_by), schema.names)
        layout = RedisLayout(
            name=self.name,
            key=tuple(self.key),
            score=self.score,
            per=tuple(self.per),
            order_by=self.order_by,
            expire_s=self.expire_s,
            listed=self.listed,
        )
        arrow = to_arrow_schema(schema, timezone="UTC")
        stored = pa.schema([arrow.field(name) for name in changes.stored_columns(arrow, keep=self.key)])
        entry = RedisSinkEntry.of(self.name, job, key=tuple(self.key), columns=stored)
        return RedisWriter(job, layout, entry, at=self.at, timeout_s=self.timeout_s)

    def output_mode(self, *, aggregated: bool, watermarked: bool) -> OutputMode:
        """Redis shows current values: counts that are still growing, not only those of closed windows."""
        return "update" if aggregated else "append"


class RedisWriter(SinkWriter):
    """Writes batches to one Redis for one job.

    Rows are written first and the fence last: writing a row twice gives the same row. Each transaction watches
    the fence, which also names the writer that owns it, so that an older process is fenced."""

    def __init__(
        self, job: str, layout: RedisLayout, entry: RedisSinkEntry, *, at: str, timeout_s: float
    ) -> None:
        self._job = job
        self._layout = layout
        self._at = at
        self._timeout_s = timeout_s
        self._owner = str(uuid.uuid4())
        self._fence_key = fence_key(layout.name, job)
        try:
            # Any: the library's types also allow responses that are awaited, and texts.
            self._redis: Any = redis.Redis.from_url(
                at, socket_timeout=RESPONSE_TIMEOUT_S, retry=Retry(NoBackoff(), 0), protocol=2
            )
        except ValueError:
            # The library's message would quote a part of the password.
            raise BadSink(
                f"{redacted(at)} is not an address of Redis", hint=f"redis://HOST:PORT/0; {ESCAPE_HINT}"
            ) from None
        self._written: Fence | None = None
        self._insist(lambda: self._redis.hset(self._fence_key, "owner", self._owner))
        self._insist(lambda: self._redis.hset(SINKS, entry.field, entry.to_json()))

    def applied(self) -> Fence | None:
        text = self._insist(lambda: self._redis.hget(self._fence_key, "fence"))
        return None if text is None else Fence.from_json(text.decode())

    def apply(self, rows: Iterable[pa.RecordBatch], fence: Fence, reject: Reject) -> int:
        if self._insist(lambda: self._is_covered(self._redis, fence)):
            return 0
        rejected: list[RejectedRow] = []
        table, written = table_of(rows), 0
        if table is not None:
            commands, rejected = self._layout.commands(table)
            for start in range(0, len(commands), COMMANDS_PER_TRANSACTION_MAX):
                part = commands[start : start + COMMANDS_PER_TRANSACTION_MAX]
                rejected += self._insist(partial(self._write, part, fence))
            written = table.num_rows - len(rejected)
        if rejected:
            reject(rejected)
        self._insist(lambda: self._write_fence(fence))
        self._written = fence
        return written

    def clear(self) -> None:
        for pattern in self._layout.patterns():
            self._insist(partial(self._remove, pattern))
        # Last: after a crash in between, the fence is still there.
        self._insist(lambda: self._redis.hdel(self._fence_key, "fence"))
        self._written = None

    def close(self) -> None:
        self._redis.close()

    # Transactions

    def _write(self, commands: Sequence[Command], fence: Fence) -> list[RejectedRow]:
        """Carry out the commands as one; the rows whose commands Redis rejected."""
        responses = self._execute([command.words for command in commands], fence, raises=False)
        rejected = {
            command.row: str(response)  # once a row, which may have several commands
            for command, response in zip(commands, responses, strict=False)
            if isinstance(response, redis.ResponseError)
        }
        return [RejectedRow(row=row(), reason=reason) for row, reason in rejected.items()]

    def _write_fence(self, fence: Fence) -> None:
        self._execute([("HSET", self._fence_key, "fence", fence.to_json())], fence, raises=True)

    def _execute(self, commands: Iterable[tuple[Word, ...]], fence: Fence, *, raises: bool) -> list[Any]:
        """The responses to the commands in one transaction; none if the fence is covered."""
        with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.watch(self._fence_key)
            if self._is_covered(pipeline, fence):
                return []
            pipeline.multi()
            for words in commands:
                pipeline.execute_command(*words)
            responses: list[Any] = pipeline.execute(raise_on_error=raises)
            return responses

    def _is_covered(self, client: Any, fence: Fence) -> bool:
        owner, text = client.hmget(self._fence_key, "owner", "fence")
        kept = None if text is None else Fence.from_json(text.decode())
        if owner is not None and owner.decode() != self._owner:
            raise SinkUnavailable(
                f"another process writes to redis {self._layout.name} as job {self._job}",
                hint="a job runs in one process at a time; stop the other one",
            )
        if owner is None or _is_missing_batches(kept, fence) or _is_older(kept, self._written):
            has = "nothing" if kept is None else f"the batches up to {kept.batch_id}"
            raise BadSink(
                f"Redis has {has} of job {self._job}, which is at batch {fence.batch_id}: it lost batches",
                hint="build it again with `headrace job run --rebuild`; give Redis `appendonly yes` to keep it",
            )
        return kept is not None and kept.covers(fence)

    def _remove(self, pattern: str) -> None:
        found = self._redis.scan_iter(match=pattern, count=KEYS_PER_REMOVAL)
        while keys := list(itertools.islice(found, KEYS_PER_REMOVAL)):
            self._redis.unlink(*keys)

    def _insist(self, call: Callable[[], T]) -> T:
        """Retry while Redis is unavailable or loading its data, or if the fence was changed meanwhile."""
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                return call()
            except redis.WatchError:
                continue
            except (redis.ConnectionError, redis.TimeoutError) as error:
                if time.monotonic() >= deadline_s:
                    raise SinkUnavailable(
                        f"no response from Redis at {redacted(self._at)} for {self._timeout_s:.0f} s: {error}",
                        hint="is it running, and is `at` its address?",
                    ) from error
                time.sleep(RETRY_PAUSE_S)


def _is_missing_batches(kept: Fence | None, fence: Fence) -> bool:
    """Batches are written one after the other: a gap means that Redis has lost some."""
    if kept is None:
        return False
    return kept.checkpoint == fence.checkpoint and kept.batch_id < fence.batch_id - 1


def _is_older(kept: Fence | None, written: Fence | None) -> bool:
    """Whether Redis has lost batches that it acknowledged. It may have more: a response may have been lost."""
    if written is None:
        return False
    return kept is None or (kept.checkpoint == written.checkpoint and kept.batch_id < written.batch_id)
