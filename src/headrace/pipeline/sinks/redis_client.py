"""Redis for the `Redis` sink, on the driver and in tasks: transactions that check the fence, and are retried."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import redis
from msgspec import Struct
from redis.backoff import NoBackoff
from redis.retry import Retry

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.redis_commands import Command, Word
from headrace.pipeline.sinks.redis_registry import fence_key
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.redaction import ESCAPE_HINT, redacted

COMMANDS_PER_TRANSACTION_MAX = 20_000
"""Redis serves no other client during a transaction: about 20 ms for this many commands."""

RETRY_PAUSE_S = 0.2
RESPONSE_TIMEOUT_S = 30.0

T = TypeVar("T")


class RedisTarget(Struct, frozen=True, kw_only=True):
    """What every writer of one job and sink needs to know."""

    at: str
    """With the password."""
    name: str
    job: str
    owner: str
    """Of the fence: the process of the job. Writers of an older one are fenced."""
    timeout_s: float

    def __repr__(self) -> str:
        return f"RedisTarget(name={self.name!r}, job={self.job!r})"


class FencedRedis:
    """A connection. Each transaction watches the fence, which also names the process that owns it."""

    def __init__(self, target: RedisTarget) -> None:
        self._target = target
        self._fence_key = fence_key(target.name, target.job)
        try:
            # Any: the library's types also allow responses that are awaited, and texts.
            self.client: Any = redis.Redis.from_url(
                target.at, socket_timeout=RESPONSE_TIMEOUT_S, retry=Retry(NoBackoff(), 0), protocol=2
            )
        except ValueError:
            # The library's message would quote a part of the password.
            raise BadSink(
                f"{redacted(target.at)} is not an address of Redis",
                hint=f"redis://HOST:PORT/0; {ESCAPE_HINT}",
            ) from None
        self.written: Fence | None = None
        """The last batch that this connection has completed."""

    def own(self) -> None:
        """Fence the processes that owned it before."""
        self.insist(lambda: self.client.hset(self._fence_key, "owner", self._target.owner))

    def fence(self) -> Fence | None:
        text = self.insist(lambda: self.client.hget(self._fence_key, "fence"))
        return None if text is None else Fence.from_json(text.decode())

    def covers(self, fence: Fence) -> bool:
        return self.insist(lambda: self._is_covered(self.client, fence))

    def write(self, commands: Sequence[Command], fence: Fence) -> list[RejectedRow]:
        """Carry out the commands in transactions; the rows whose commands Redis rejected."""
        rejected: list[RejectedRow] = []
        for start in range(0, len(commands), COMMANDS_PER_TRANSACTION_MAX):
            part = commands[start : start + COMMANDS_PER_TRANSACTION_MAX]
            rejected += self.insist(lambda part=part: self._write(part, fence))  # type: ignore[misc]
        return rejected

    def write_fence(self, fence: Fence) -> None:
        words = ("HSET", self._fence_key, "fence", fence.to_json())
        self.insist(lambda: self._execute([words], fence, raises=True))
        self.written = fence

    def delete_fence(self) -> None:
        self.insist(lambda: self.client.hdel(self._fence_key, "fence"))
        self.written = None

    def close(self) -> None:
        self.client.close()

    def insist(self, call: Callable[[], T]) -> T:
        """Retry while Redis is unavailable or loading its data, or if the fence was changed meanwhile."""
        deadline_s = time.monotonic() + self._target.timeout_s
        while True:
            try:
                return call()
            except redis.WatchError:
                continue
            except (redis.ConnectionError, redis.TimeoutError) as error:
                if time.monotonic() >= deadline_s:
                    raise SinkUnavailable(
                        f"no response from Redis at {redacted(self._target.at)} for "
                        f"{self._target.timeout_s:.0f} s: {error}",
                        hint="is it running, and is `at` its address?",
                    ) from error
                time.sleep(RETRY_PAUSE_S)

    def _write(self, commands: Sequence[Command], fence: Fence) -> list[RejectedRow]:
        responses = self._execute([command.words for command in commands], fence, raises=False)
        rejected = {
            command.row: str(response)  # once a row, which may have several commands
            for command, response in zip(commands, responses, strict=False)
            if isinstance(response, redis.ResponseError)
        }
        return [RejectedRow(row=row(), reason=reason) for row, reason in rejected.items()]

    def _execute(self, commands: Iterable[tuple[Word, ...]], fence: Fence, *, raises: bool) -> list[Any]:
        """The responses to the commands in one transaction; none if the fence is covered."""
        with self.client.pipeline(transaction=True) as pipeline:
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
        if owner is not None and owner.decode() != self._target.owner:
            raise SinkUnavailable(
                f"another process writes to redis {self._target.name} as job {self._target.job}",
                hint="a job runs in one process at a time; stop the other one",
            )
        if owner is None or _is_missing_batches(kept, fence) or _is_older(kept, self.written):
            has = "nothing" if kept is None else f"the batches up to {kept.batch_id}"
            raise BadSink(
                f"Redis has {has} of job {self._target.job}, which is at batch {fence.batch_id}: it lost batches",
                hint="build it again with `headrace job run --rebuild`; give Redis `appendonly yes` to keep it",
            )
        return kept is not None and kept.covers(fence)


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
