"""Writing records: one producer for all requests, and a thread that takes the acknowledgements of the broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

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


class Written(Struct, kw_only=True):
    """What became of one record."""

    partition: int | None
    offset: int | None
    error_code: int | None = None
    error: str | None = None


class _Request:
    """The records of one request, until all of them are acknowledged or failed."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = count
        # Each is set before the last call of `_is_done`, whichever thread makes it.
        self.written: list[Written | None] = [None] * count
        self._outcomes: list[int] = []
        self.all_done: asyncio.Future[None] = self._loop.create_future()

    def acknowledged(self, index: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed(index, error)
            return
        self.written[index] = Written(partition=message.partition(), offset=message.offset())
        self._count(index)

    def failed(self, index: int, error: KafkaError) -> None:
        code = MAY_RETRY if _is_passing(error) else DO_NOT_RETRY
        self.written[index] = Written(partition=None, offset=None, error_code=code, error=error.str())
        self._count(index)

    def _count(self, index: int) -> None:
        # Appending is atomic, so that the thread which appends the last one sees all.
        self._outcomes.append(index)
        if len(self._outcomes) == self._left:
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
    ) -> list[Written]:
        """When the broker has acknowledged all of them, or rejected some. `partition` is that of all records."""
        if len(self._producer) + len(records) > self._settings.unacknowledged_records_max:
            raise TooManyRecords(
                "the broker does not acknowledge records as fast as they come",
                hint="send the same request later",
            )
        request = _Request(len(records))
        for index, each in enumerate(records):
            self._produce(topic, each, each.partition if partition is None else partition, request, index)
        await request.all_done
        return [each for each in request.written if each is not None]

    def _produce(
        self, topic: str, record: NewRecord, partition: int | None, request: _Request, index: int
    ) -> None:
        try:
            self._producer.produce(
                topic,
                record.value,
                record.key,
                -1 if partition is None else partition,
                on_delivery=partial(request.acknowledged, index),
                headers=list(record.headers) or None,
            )
        except KafkaException as error:
            request.failed(index, error.args[0])
        except BufferError:
            request.failed(index, KafkaError(KafkaError._QUEUE_FULL))

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
