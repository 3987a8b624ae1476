"""Writes the messages of one micro-batch to topics exactly once, from the driver: messages and fence in one
transaction.

with TransactionalBatch("headrace-dead-letters.clicks", topic="clicks.dead", bootstrap="127.0.0.1:9092") as batch:
    batch.write([OutgoingMessage(value=b"what could not be read")], fence)

For many rows see `topic_writer.py`, where tasks write side by side.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from headrace.kafka.cluster import Cluster
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.fenced_producer import FencedProducer, TransactionFailed, size_limits
from headrace.pipeline.sinks.topic_admin import delete_fence, ensure_topic

TIMEOUT_S = 60.0
"""How long a broker may be unavailable, such as during a restart, before a batch fails."""


class OutgoingMessage(Struct, frozen=True, kw_only=True):
    """A message to write, in bytes."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str | None = None
    """None is the topic that the batch was made for."""
    partition: int | None = None
    """None leaves it to the key."""
    timestamp_ms: int | None = None
    """None is now."""


class TransactionalBatch:
    """One writer's batches.

    `writer` names who writes, for good: it is the transactional id, and the group that keeps the fence. A
    second instance with the same name takes over, and the first one's writes fail. A batch whose fence is
    covered is not written again, so each purpose needs a name of its own."""

    def __init__(
        self,
        writer: str,
        *,
        topic: str,
        bootstrap: str,
        config: Mapping[str, Any] | None = None,
        producer_config: Mapping[str, Any] | None = None,
        topic_config: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.writer = writer
        self.topic = topic
        self._bootstrap = bootstrap
        self._config = dict(config or {})
        self._producer_config = dict(producer_config or {})
        self._topic_config = dict(topic_config or {})
        self._message_bytes_max = 0
        self._timeout_s = timeout_s
        self._producer: FencedProducer | None = None

    def applied(self) -> Fence | None:
        """The fence that the cluster keeps for this writer, whichever checkpoint it is of."""
        kept = self._open().kept
        return None if kept is None else Fence.from_json(kept)

    def marks_kept(self) -> Mapping[str, Any]:
        """What the last transaction kept beside its fence."""
        kept = self._open().kept
        return {} if kept is None else json.loads(kept).get("marks", {})

    def write(self, messages: Iterable[OutgoingMessage], fence: Fence) -> int:
        """Write the messages and the fence in one step; how many there were. If the fence is covered, nothing and 0.

        After an error the same batch can be written again: what became of the first attempt is found out then.
        """
        applied = self.applied()
        if applied is not None and applied.covers(fence):
            return 0
        count = 0
        with self.transaction(fence) as producer:
            for message in messages:
                _produce(producer, message.topic or self.topic, message)
                count += 1
        return count

    @contextlib.contextmanager
    def transaction(self, fence: Fence, marks: Mapping[str, Any] | None = None) -> Iterator[FencedProducer]:
        """A transaction that has the fence in it, and that is undone if what is inside fails.

        `marks` are kept beside the fence; `marks_kept` gives them back.
        """
        producer = self._open()
        try:
            producer.begin(fence.batch_id, _with_marks(fence, marks or {}))
            yield producer
            producer.commit()
        except BaseException:
            with contextlib.suppress(TransactionFailed):
                producer.abort()
            # Whether a commit that failed came through is only known after opening the name again.
            self.close()
            raise

    def clear(self) -> None:
        """Forget the fence. The messages stay."""
        self.close()
        delete_fence(self._cluster(), self.writer)

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def message_bytes_max(self) -> int:
        """What the topic takes: `max.message.bytes`. A message needs some 100 bytes besides its content."""
        self._open()
        return self._message_bytes_max

    def _cluster(self) -> Cluster:
        return Cluster(self._bootstrap, timeout_s=self._timeout_s, config=self._config)

    def _open(self) -> FencedProducer:
        if self._producer is None:
            self._message_bytes_max = ensure_topic(self._cluster(), self.topic, self._topic_config)
            self._producer = FencedProducer(
                self.writer,
                topic=self.topic,
                bootstrap=self._bootstrap,
                config=self._config,
                producer_config={**size_limits(self._message_bytes_max), **self._producer_config},
                timeout_s=self._timeout_s,
            )
        return self._producer


def _with_marks(fence: Fence, marks: Mapping[str, Any]) -> str:
    text = fence.to_json()
    return json.dumps({**json.loads(text), "marks": marks}, separators=(",", ":")) if marks else text


def _produce(producer: FencedProducer, topic: str, message: OutgoingMessage) -> None:
    more = {}
    if message.partition is not None:
        more["partition"] = message.partition
    if message.timestamp_ms is not None:
        more["timestamp"] = message.timestamp_ms
    producer.produce(topic, message.value, message.key, message.headers, **more)
