"""Sends commands from any process to the worker that owns the aggregate, and waits for replies."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from headrace.events.aggregate import Aggregate, check_aggregate_id
from headrace.events.codec import Codec
from headrace.events.commands import Reply, command_record, read_reply
from headrace.events.decisions import Command
from headrace.events.errors import CommandRejected, EventsError, InvalidEvent, NoReply, StoreUnavailable
from headrace.events.partitioner import partition_of
from headrace.events.records import Topics
from headrace.events.topics import prepare_command_topics, unavailable
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import RequestFailed
from headrace.kafka.settings import client_settings

C = TypeVar("C")

TIMEOUT_S = 30.0
"""For the acknowledgement of a command, and for a reply unless the caller gives another time."""

WAITING_MAX = 10_000
"""Commands without a reply. Beyond that, workers are too slow or have stopped."""

POLL_S = 0.2


class CommandSender(Generic[C]):
    """Sends the commands of one store. Threads may share it."""

    def __init__(
        self,
        topic: str,
        aggregate: Aggregate[Any, C, Any],
        *,
        bootstrap: str | None = None,
        config: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._topics = Topics.of(topic)
        self._codec = Codec("command", aggregate.commands)
        self._timeout_s = timeout_s
        address = bootstrap or (config or {}).get("bootstrap.servers") or client_settings(None).bootstrap
        self._cluster = Cluster(address, timeout_s=timeout_s, config=config)
        try:
            self._partitions = len(self._cluster.partitions(topic))
        except RequestFailed as error:
            raise unavailable(error) from error
        prepare_command_topics(self._cluster, self._topics, self._partitions)
        self._producer = Producer(
            {
                **self._cluster.client_config(),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": int(timeout_s * 1000),
            }
        )
        # Senders share the partitions of the replies; each reads one of them.
        self._reply_partition = partition_of(uuid.uuid4().bytes, self._partitions)
        self._waiting: dict[str, Future[Reply]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commands that were sent are handled all the same; their replies are dropped."""
        self._closing.set()
        if self._reader is not None:
            self._reader.join()
        self._producer.flush(self._timeout_s)

    def send(
        self,
        aggregate_id: str,
        command: C,
        *,
        command_id: str | None = None,
        correlation_id: str = "",
        expected_version: int | None = None,
    ) -> str:
        """Store the command, and return its id without waiting for a worker."""
        wanted = self._command(aggregate_id, command, command_id, correlation_id, expected_version)
        self._produce(wanted, reply_partition=None)
        return wanted.id

    def request(
        self,
        aggregate_id: str,
        command: C,
        *,
        command_id: str | None = None,
        correlation_id: str = "",
        expected_version: int | None = None,
        timeout_s: float | None = None,
    ) -> Reply:
        """Send the command, and wait for the reply of the worker.

        CommandRejected if the command was rejected, NoReply if no worker replies in time. The command may still be
        handled then: a repetition with the same `command_id` gets the outcome, and is not handled twice.
        """
        wanted = self._command(aggregate_id, command, command_id, correlation_id, expected_version)
        self._start_reader()
        reply: Future[Reply] = Future()
        with self._lock:
            if len(self._waiting) >= WAITING_MAX:
                raise NoReply(
                    f"{WAITING_MAX:,} commands of {self._topics.events} wait for a reply",
                    hint="is a CommandWorker running?",
                )
            self._waiting[wanted.id] = reply
        try:
            self._produce(wanted, reply_partition=self._reply_partition)
            found = reply.result(self._timeout_s if timeout_s is None else timeout_s)
        except TimeoutError as error:
            raise NoReply(
                f"no reply to command {wanted.id} of {aggregate_id} in time",
                hint="is a CommandWorker running? a repetition with the same command_id is handled once",
            ) from error
        finally:
            with self._lock:
                self._waiting.pop(wanted.id, None)
        if found.is_error:
            raise EventsError(
                f"command {wanted.id} of {aggregate_id} failed: {found.reason}",
                hint=f"{self._topics.rejected} has the command",
            )
        if found.reason is not None:
            raise CommandRejected(found.reason)
        return found

    def _command(
        self,
        aggregate_id: str,
        command: C,
        command_id: str | None,
        correlation_id: str,
        expected_version: int | None,
    ) -> Command:
        check_aggregate_id(aggregate_id)
        name, data = self._codec.encode(command)
        return Command(
            aggregate_id=aggregate_id,
            id=command_id or uuid.uuid4().hex,
            type=name,
            data=data,
            correlation_id=correlation_id,
            expected_version=expected_version,
        )

    def _produce(self, command: Command, *, reply_partition: int | None) -> None:
        record = command_record(
            self._topics.commands,
            command,
            partition=partition_of(command.aggregate_id.encode(), self._partitions),
            reply_partition=reply_partition,
        )
        outcome: Future[None] = Future()

        def on_delivery(error: KafkaError | None, _: KafkaMessage) -> None:
            if error is None:
                outcome.set_result(None)
            else:
                outcome.set_exception(
                    StoreUnavailable(
                        f"command {command.id} can't be stored in {record.topic}: {error.str()}",
                        hint="a repetition with the same command_id is handled once",
                    )
                )

        try:
            self._producer.produce(
                record.topic,
                record.value,
                record.key,
                partition=record.partition or 0,
                headers=list(record.headers),
                on_delivery=on_delivery,
            )
        except KafkaException as error:
            raise InvalidEvent(
                f"command {command.id} of {command.aggregate_id} can't be sent: {error.args[0].str()}",
                hint="a command has at most message.max.bytes of the client",
            ) from error
        except BufferError as error:
            raise StoreUnavailable(
                f"command {command.id} can't be sent: too many are not acknowledged",
                hint="is the broker running?",
            ) from error
        deadline_s = time.monotonic() + self._timeout_s + POLL_S
        # Any thread may serve the delivery report, so this one polls in short steps.
        while not outcome.done() and time.monotonic() < deadline_s:
            self._producer.poll(0.01)
        outcome.result(timeout=0)

    # Replies

    def _start_reader(self) -> None:
        """Read from the end of the replies as it is now, which is before the reply to anything sent later."""
        with self._lock:
            if self._reader is not None:
                return
            replies = Partition(self._topics.replies, self._reply_partition)
            try:
                end = self._cluster.latest([replies])[replies]
            except RequestFailed as error:
                raise unavailable(error) from error
            consumer = Consumer(
                {
                    **self._cluster.client_config(),
                    "group.id": "headrace-events-replies",  # the client requires one, and nothing is committed
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "latest",
                }
            )
            consumer.assign([TopicPartition(replies.topic, replies.number, end)])
            self._reader = threading.Thread(
                target=self._read_replies, args=(consumer,), name="headrace-replies", daemon=True
            )
            self._reader.start()

    def _read_replies(self, consumer: Consumer) -> None:
        try:
            while not self._closing.is_set():
                message = consumer.poll(POLL_S)
                if message is None or message.error() is not None:
                    continue  # the client reconnects, and a request has its own timeout
                reply = read_reply(message.value() or b"")
                if reply is None:
                    continue
                with self._lock:
                    waiting = self._waiting.pop(reply.command_id, None)
                if waiting is not None:
                    waiting.set_result(reply)
        finally:
            consumer.close()
