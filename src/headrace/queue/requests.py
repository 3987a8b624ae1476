"""The client's side of requests: sends them with an id, reads the replies, and ends those that take too long.

One thread reads the replies of a queue's requests and watches their deadlines. A request that is answered, timed out or
cancelled is forgotten: a reply that is read later is counted and dropped.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from heapq import heappop, heappush
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage
from msgspec import Struct

from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.share_groups import describe_share_group, list_share_groups
from headrace.queue.errors import HandlerFailed, QueueError, RequestTimedOut, queue_errors
from headrace.queue.message import MessageId, headers_of
from headrace.queue.outbox import Headers, Outbox
from headrace.queue.replies import REPLIES_TOPIC, reply_partitions
from headrace.queue.reply_to import ERROR_HEADER, ReplyTo

logger = logging.getLogger("headrace.queue")

REQUESTS_MAX = 10_000
"""Requests in flight of one queue: bounds the memory of a client whose workers are too slow."""

ANSWERED_MAX = 10_000
"""Requests that are remembered after their reply, to tell a second reply from a late one."""

LOOK_S = 0.1
"""How often deadlines are checked, if none is nearer."""


class Reply(Struct, frozen=True, kw_only=True):
    """What a worker replied."""

    value: bytes
    headers: list[tuple[str, bytes | None]]


class _Pending(Struct, eq=False):
    topic: str
    timeout_s: float
    reply: Future[Reply]


class Requests:
    def __init__(self, cluster: Cluster, outbox: Outbox, client_config: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._client_config = client_config
        self._client = uuid.uuid4().hex
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._pending: dict[str, _Pending] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._answered: OrderedDict[str, None] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._partition = 0
        self._is_closed = False
        self.late = 0
        """Replies after the time-out of their request."""
        self.duplicate = 0
        """Replies to a request that had one: it was delivered to a second worker."""

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | str | None,
        headers: Headers,
        timeout_s: float,
    ) -> Future[Reply]:
        self._start()
        request_id = f"{self._client}/{next(self._numbers)}"
        to = ReplyTo(request_id, self._partition, SystemClock().now_ms() + int(timeout_s * 1000))
        reply: Future[Reply] = Future()
        with self._lock:
            if self._is_closed:
                raise QueueError("the queue was closed")
            if len(self._pending) >= REQUESTS_MAX:
                raise QueueError(
                    f"{REQUESTS_MAX} requests wait for their replies", hint="wait for some of them first"
                )
            self._pending[request_id] = _Pending(topic, timeout_s, reply)
            heappush(self._deadlines, (time.monotonic() + timeout_s, request_id))
        # Also if the caller cancels it.
        reply.add_done_callback(lambda _: self._pending.pop(request_id, None))
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        stored = self._outbox.send_when_room(topic, value, key, [*pairs, *to.headers()])
        stored.add_done_callback(lambda done: self._on_stored(done, reply))
        return reply

    def _on_stored(self, stored: Future[MessageId], reply: Future[Reply]) -> None:
        error = stored.exception()
        if error is not None:
            with suppress(InvalidStateError):
                reply.set_exception(error)

    def close(self) -> None:
        self._is_closed = True
        if self._thread is not None:
            self._thread.join()
        for each in [*self._pending.values()]:
            with suppress(InvalidStateError):
                each.reply.set_exception(QueueError("the queue was closed before the reply"))

    def explain(self, error: RequestTimedOut, topic: str) -> RequestTimedOut:
        """The same error; it says so if no worker reads the topic."""
        with suppress(HeadraceError, OSError):
            if not _has_workers(self._cluster, topic):
                error.hint = (
                    f"no worker of any group reads {topic}: `headrace queue list` lists groups and members"
                )
        return error

    def _start(self) -> None:
        """Begin to read replies, before the first request is sent."""
        with self._lock:
            if self._thread is not None:
                return
            self._partition = random.randrange(reply_partitions(self._cluster))
            place = Partition(REPLIES_TOPIC, self._partition)
            with queue_errors():
                end = self._cluster.latest([place])[place]
            consumer = Consumer(
                {
                    "group.id": REPLIES_TOPIC,  # the client requires one, and nothing is committed
                    **self._client_config,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                }
            )
            consumer.assign([TopicPartition(REPLIES_TOPIC, self._partition, end)])
            self._thread = threading.Thread(
                target=self._read, args=(consumer,), name="queue-replies", daemon=True
            )
            self._thread.start()

    # In the thread

    def _read(self, consumer: Consumer) -> None:
        try:
            while not self._is_closed:
                message = consumer.poll(self._time_out())
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self._reply(message)
                else:
                    logger.info("replies: %s; retrying", error.str())
        finally:
            consumer.close()

    def _time_out(self) -> float:
        """End the requests that took too long; how long to wait for the next one."""
        now_s = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now_s:
            with self._lock:
                _, request_id = heappop(self._deadlines)
            pending = self._pending.get(request_id)
            if pending is not None:
                with suppress(InvalidStateError):
                    pending.reply.set_exception(
                        RequestTimedOut(
                            f"no reply from {pending.topic} within {pending.timeout_s:g} s",
                            hint="its workers are too slow, or there are too few of them",
                        )
                    )
        return max(min(LOOK_S, self._deadlines[0][0] - now_s), 0) if self._deadlines else LOOK_S

    def _reply(self, message: KafkaMessage) -> None:
        request_id = (message.key() or b"").decode(errors="replace")
        if not request_id.startswith(f"{self._client}/"):
            return
        pending = self._pending.get(request_id)
        if pending is None:
            if request_id in self._answered:
                self.duplicate += 1
            else:
                self.late += 1
            return
        self._answered[request_id] = None
        if len(self._answered) > ANSWERED_MAX:
            self._answered.popitem(last=False)
        headers = headers_of(message)
        error = dict(headers).get(ERROR_HEADER)
        with suppress(InvalidStateError):
            if error is None:
                pending.reply.set_result(Reply(value=message.value() or b"", headers=headers))
            else:
                reason = error.decode(errors="replace")
                pending.reply.set_exception(HandlerFailed(f"{pending.topic} rejected the request: {reason}"))


def _has_workers(cluster: Cluster, topic: str) -> bool:
    brokers = cluster.brokers()
    for name, _ in list_share_groups(brokers, cluster.timeout_s):
        group = describe_share_group(brokers[0], name, cluster.timeout_s)
        if group.members and any(each.topic == topic for each in group.partitions):
            return True
    return False
