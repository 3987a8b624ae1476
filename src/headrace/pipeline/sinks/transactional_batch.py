"""Writes the messages of one micro-batch to topics exactly once, from the driver: messages and fence in one
transaction.

batch = TransactionalBatch("headrace-dead-letters.clicks", topic="clicks.dead", bootstrap="127.0.0.1:9092")
batch.write([OutgoingMessage(value=b"a record that could not be parsed")], fence)

For many rows see `topic_writer.py`, where tasks write side by side.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from headrace.kafka.cluster import Cluster
from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.fenced_producer import TIMEOUT_S, FencedProducer, Target
from headrace.pipeline.sinks.topic_admin import delete_fence, ensure_topic


class OutgoingMessage(Struct, frozen=True, kw_only=True):
    """A message to write, in bytes."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str | None = None
    """None is the topic of the batch."""
    partition: int | None = None
    """None: by the key."""
    timestamp_ms: int | None = None
    """None: now."""


class TransactionalBatch:
    """One writer's batches.

    `writer` is the transactional id, and the group that keeps the fence. A second instance with the same name fences
    the first one. A batch whose fence is covered is not written again, so each purpose needs a name of its own.
    """

    def __init__(
        self,
        writer: str,
        *,
        topic: str,
        bootstrap: str,
        topic_config: Mapping[str, str] | None = None,
        compression: str = "none",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.writer = writer
        self.topic = topic
        self._bootstrap = bootstrap
        self._topic_config = topic_config or {}
        self._compression = compression
        self._timeout_s = timeout_s
        self._producer: FencedProducer | None = None

    def applied(self) -> Fence | None:
        """The fence that the cluster keeps for this writer, of any checkpoint."""
        kept = self._open().kept
        return None if kept is None else Fence.from_json(kept)

    def marks_kept(self) -> Mapping[str, Any]:
        """The marks of the last transaction."""
        kept = self._open().kept
        return {} if kept is None else json.loads(kept).get("marks", {})

    def write(self, messages: Iterable[OutgoingMessage], fence: Fence) -> int:
        """Write the messages and the fence in one transaction, unless the fence is covered; returns their number.

        After an error the same batch can be written again: the fence shows whether the first attempt was committed.
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
        """A transaction with the fence in it, which is aborted after an error.

        `marks` are kept with the fence; `marks_kept` returns them.
        """
        producer = self._open()
        try:
            producer.begin(fence.batch_id, _with_marks(fence, marks or {}))
            yield producer
            producer.commit()
        except BaseException:
            with contextlib.suppress(SinkUnavailable):
                producer.abort()
            # Whether a failed commit took effect is only known after the name is opened again.
            self.close()
            raise

    def clear(self) -> None:
        """Delete the fence, and no messages."""
        self.close()
        delete_fence(self.cluster(), self.writer)

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    @property
    def target(self) -> Target:
        """With the limit of the topic, `max.message.bytes`. A message needs some 100 bytes besides its content."""
        return self._open().target

    def cluster(self) -> Cluster:
        return Cluster(self._bootstrap, timeout_s=self._timeout_s)

    def _open(self) -> FencedProducer:
        if self._producer is None:
            target = Target(
                topic=self.topic,
                bootstrap=self._bootstrap,
                message_bytes_max=ensure_topic(self.cluster(), self.topic, self._topic_config),
                compression=self._compression,
                timeout_s=self._timeout_s,
            )
            self._producer = FencedProducer(self.writer, target)
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
