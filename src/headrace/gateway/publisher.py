"""Writing records: one producer for all requests, and a thread that takes the acknowledgements of the broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from msgspec import Struct

from headrace.gateway.errors import TooManyRecords
from headrace.gateway.records import NewRecord
from headrace.gateway.settings import GatewaySettings

POLL_S = 0.1
"""How long the thread waits for acknowledgements, until it looks whether it has to stop."""

CLOSE_S_MAX = 5.0

DO_NOT_RETRY, MAY_RETRY = 1, 2
"""The codes of failed records in Confluent's REST proxy."""


class Written(Struct):
    """What became of one record."""

    partition: int | None
    offset: int | None
    error_code: int | None = None
    error: str | None = None


class Outcome(Struct, frozen=True):
    written: list[Written]
    failures: frozenset[int]
    """Kafka's codes of the records that were not written."""
    is_buffered: bool = False
    """They are on disk, and will be written."""

    @property
    def is_rejected(self) -> bool:
        """Whether the request has to be changed, because the broker will never take these records."""
        return not self.failures.isdisjoint(_REJECTED)

    @property
    def is_overloaded(self) -> bool:
        """Whether there was only no room for them."""
        return self.failures == {KafkaError._QUEUE_FULL}


_REJECTED = frozenset(
    {
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
    }
)


class _Request:
    """The records of one request, until all of them are acknowledged or failed."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.written: list[Written | None] = [None] * count
        self.failures: set[int] = set()
        # Its steps are atomic, so that exactly one thread takes the last one, after all outcomes are set.
        self._outcomes = iter(range(1, count + 1))
        self._count = count
        self.all_done: asyncio.Future[None] = self._loop.create_future()

    def acknowledged(self, index: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed(index, error)
            return
        self.written[index] = Written(message.partition(), message.offset())
        if next(self._outcomes) == self._count:
            self._loop.call_soon_threadsafe(self._set_done)

    def failed(self, index: int, error: KafkaError) -> None:
        code = MAY_RETRY if _is_passing(error) else DO_NOT_RETRY
        self.written[index] = Written(None, None, code, error.str())
        self.failures.add(error.code())
        if next(self._outcomes) == self._count:
            self._loop.call_soon_threadsafe(self._set_done)

    def _set_done(self) -> None:
        if not self.all_done.done():
            self.all_done.set_result(None)


class Publisher:
    """`config` is that of a client of the broker."""

    def __init__(self, config: Mapping[str, Any], settings: GatewaySettings) -> None:
        self._settings = settings
        self._producer = Producer(
            {
                **config,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # that of Java's clients
                "linger.ms": settings.linger_ms,
                "message.timeout.ms": settings.produce_ms_max,
                "queue.buffering.max.messages": settings.unacknowledged_records_max,
                "queue.buffering.max.kbytes": max(1, settings.bodies_bytes_max // 1024),
                "message.max.bytes": 1_000_000_000,  # the broker knows the limit of each topic
                "error_cb": lambda _error: None,
            }
        )
        self._is_closed = False
        self._thread = threading.Thread(
            target=self._acknowledge, name="headrace-gateway-publisher", daemon=True
        )
        self._thread.start()

    async def publish(
        self, topic: str, records: Sequence[NewRecord], *, partition: int | None = None
    ) -> Outcome:
        """When the broker has acknowledged all of them, or rejected some. `partition` is that of all records."""
        if len(self._producer) + len(records) > self._settings.unacknowledged_records_max:
            raise TooManyRecords(
                "the broker does not acknowledge records as fast as they come",
                hint="send the same request later",
            )
        assert records
        request = _Request(len(records))
        produce = self._producer.produce
        for index, each in enumerate(records):
            number = each.partition if partition is None else partition
            try:
                produce(
                    topic,
                    each.value,
                    each.key,
                    -1 if number is None else number,
                    on_delivery=partial(request.acknowledged, index),
                    headers=each.headers or None,
                )
            except KafkaException as error:
                request.failed(index, error.args[0])
            except BufferError:
                request.failed(index, KafkaError(KafkaError._QUEUE_FULL))
        await request.all_done
        return Outcome(cast("list[Written]", request.written), frozenset(request.failures))

    def _acknowledge(self) -> None:
        while not self._is_closed:
            self._producer.poll(POLL_S)

    def close(self) -> None:
        self._producer.flush(CLOSE_S_MAX)
        self._is_closed = True
        self._thread.join()


def _is_passing(error: KafkaError) -> bool:
    return error.retriable() or error.code() in (
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._QUEUE_FULL,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_ENOUGH_REPLICAS,
    )
