"""`Redis`: rows in Redis, as hashes by key or as members of sorted sets by score.

The sink and its writer, which keeps the fence. `redis_commands.py` turns rows into commands.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from headrace.pipeline import points
from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import changes
from headrace.pipeline.sinks.changes import table_of
from headrace.pipeline.sinks.chunks import by_key_in_order
from headrace.pipeline.sinks.driver_rows import DRIVER_ROWS_MAX, collect, collect_few
from headrace.pipeline.sinks.redis_client import FencedRedis, RedisTarget
from headrace.pipeline.sinks.redis_commands import RedisLayout
from headrace.pipeline.sinks.redis_registry import SINKS, RedisSinkEntry
from headrace.pipeline.sinks.redis_task import RedisTaskPlan, write_part
from headrace.pipeline.sinks.sink import OutputMode, Reject, RejectedRow, Sink, SinkWriter
from headrace.pipeline.sinks.task_response import RESPONSE_COLUMNS, responses_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

KEYS_PER_REMOVAL = 5_000

TIMEOUT_S = 60.0
"""How long Redis may be unavailable, such as during a restart, before a batch fails."""


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
    driver_rows_max: int = DRIVER_ROWS_MAX
    """Batches of at most as many input rows are written by the driver; larger ones by tasks."""

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
        target = RedisTarget(
            at=self.at, name=self.name, job=job, owner=str(uuid.uuid4()), timeout_s=self.timeout_s
        )
        return RedisWriter(target, layout, entry, driver_rows_max=self.driver_rows_max)

    def output_mode(self, *, aggregated: bool, watermarked: bool) -> OutputMode:
        """Redis shows current values: counts that are still growing, not only those of closed windows."""
        return "update" if aggregated else "append"


class RedisWriter(SinkWriter):
    """Writes batches to one Redis for one job.

    Rows are written first and the fence last: writing a row twice gives the same row. The driver writes the fence, and
    the rows of a batch of at most `driver_rows_max` records; tasks write those of a larger one."""

    def __init__(
        self, target: RedisTarget, layout: RedisLayout, entry: RedisSinkEntry, *, driver_rows_max: int
    ) -> None:
        self._target = target
        self._layout = layout
        self._driver_rows_max = driver_rows_max
        self._redis = FencedRedis(target)
        self._redis.own()
        self._redis.insist(lambda: self._redis.client.hset(SINKS, entry.field, entry.to_json()))

    def applied(self) -> Fence | None:
        return self._redis.fence()

    def apply(self, rows: Iterable[pa.RecordBatch], fence: Fence, reject: Reject) -> int:
        if self._redis.covers(fence):
            return 0
        rejected: list[RejectedRow] = []
        table, written = table_of(rows), 0
        if table is not None:
            commands, rejected = self._layout.commands(table)
            rejected += self._redis.write(commands, fence)
            written = table.num_rows - len(rejected)
        return self._complete(fence, written, rejected, reject)

    def write(self, batch: DataFrame, fence: Fence, reject: Reject) -> int:
        rows = collect_few(batch, fence, self._driver_rows_max)
        if rows is not None:
            return self.apply_collected(rows, fence, reject)
        if self._redis.covers(fence):
            return 0
        layout = self._layout
        parts = by_key_in_order(batch, [*layout.per, *layout.key], fence, layout.order_by)
        plan = RedisTaskPlan(target=self._target, layout=layout, fence=fence)
        responses = responses_of(collect(parts.mapInArrow(partial(write_part, plan), RESPONSE_COLUMNS)))
        points.reached("after-stage", job=fence.job)
        rejected = [row for response in responses for row in response.rejected_rows()]
        return self._complete(fence, sum(each.written for each in responses), rejected, reject)

    def clear(self) -> None:
        for pattern in self._layout.patterns():
            self._redis.insist(partial(self._remove, pattern))
        # Last: after a crash in between, the fence is still there.
        self._redis.delete_fence()

    def close(self) -> None:
        self._redis.close()

    def _complete(self, fence: Fence, written: int, rejected: list[RejectedRow], reject: Reject) -> int:
        if rejected:
            reject(rejected)
        self._redis.write_fence(fence)
        return written

    def _remove(self, pattern: str) -> None:
        client = self._redis.client
        found = client.scan_iter(match=pattern, count=KEYS_PER_REMOVAL)
        while keys := list(itertools.islice(found, KEYS_PER_REMOVAL)):
            client.unlink(*keys)
