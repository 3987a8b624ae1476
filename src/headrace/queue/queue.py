"""The API of queues: take messages, acknowledge them, put others, or leave the loop to `run`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, get_args

from headrace.dead_letters import dead_letter_topic
from headrace.kafka.cluster import Cluster
from headrace.kafka.settings import client_config, require_broker
from headrace.queue.deliveries import Deliveries
from headrace.queue.errors import MessageNotStored, QueueUnusable, RequestTimedOut, queue_errors
from headrace.queue.group_settings import (
    ORDER,
    ORDER_BY_KEY,
    GroupSettings,
    ensure_settings,
    wanted_settings,
)
from headrace.queue.message import Errors, Message, MessageId
from headrace.queue.outbox import Headers, Outbox
from headrace.queue.rejections import Rejections
from headrace.queue.replies import Replies
from headrace.queue.reply_to import content
from headrace.queue.requests import Reply, Requests
from headrace.queue.runner import Allowance, Runner, raise_or_log, stopped_by_signals
from headrace.queue.topics import MatchingTopics

logger = logging.getLogger("headrace.queue")

PREFETCH = 50
"""Enough to hide the round trip to the broker; a lock of 30 s still covers messages of half a second each."""

RUN_MEMBERS_MAX = 16
"""Members that `run` adds at most: each has threads and a connection of its own."""

TOPIC_APPEARS_S_MAX = 0.5
"""Apache Kafka's nodes learn of a new topic a moment after its creation was confirmed."""

TIMEOUT_S = 30.0
"""For requests that a running broker answers immediately."""

REQUEST_TIMEOUT_S_MAX = 86_400
"""Of `Queue.request`. What takes longer needs a topic for its results, because a reply is lost with its caller."""


StartAt = Literal["earliest", "latest"]


class QueueOptions(TypedDict, total=False):
    """The arguments of `Queue` and `AsyncQueue` besides topics."""

    group: str
    bootstrap: str | None
    pattern: str | re.Pattern[str] | None
    prefetch: int
    members: int
    start: StartAt
    dead_letters: str | None
    ordered: bool
    config: Mapping[str, Any] | None
    timeout_s: float


class Queue:
    """Messages of topics, each delivered to one worker of a group.

        with Queue("emails", group="senders") as queue:
            for message in queue:
                send(message.value)
                message.accept()

    Leaving the context waits until the broker has all acknowledgements, and releases the other messages.
    Any number of threads may take messages from one queue; a message belongs to the thread that took it.

    topics, pattern   what to read: names of topics that exist, or a regular expression that matches whole names, new
                      topics included
    group             the workers that share the messages; every group gets all of them. `put` needs no group.
    bootstrap         HOST:PORT of the broker; by default that of the commands: $HEADRACE_BOOTSTRAP, [client] bootstrap
                      in headrace.toml, 127.0.0.1:9092
    prefetch          how many messages to lock at a time, at most. Apache Kafka may exceed it: it delivers whole
                      batches, as the producer made them.
    members           how many members this queue may add to the group. The client returns the next messages only once
                      all of the last ones are acknowledged; with a member for each thread, no thread waits for another.
    start             where a new group starts: "earliest" (default) or "latest". A group that has the setting keeps it.
    dead_letters      the topic for rejected messages, `dlq.GROUP` by default; "" for none. A group that has the setting
                      keeps it.
    ordered           whether messages of a key are delivered in order, to one worker at a time; a message that is
                      released holds back its key only. Needs Headrace's broker, and holds for all workers of the group.
    config            more settings for confluent-kafka's clients, such as those for TLS
    """

    def __init__(
        self,
        *topics: str,
        group: str = "",
        bootstrap: str | None = None,
        pattern: str | re.Pattern[str] | None = None,
        prefetch: int = PREFETCH,
        members: int = 1,
        start: StartAt = "earliest",
        dead_letters: str | None = None,
        ordered: bool = False,
        config: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if bool(topics) == (pattern is not None):
            raise QueueUnusable("a queue needs topics or a pattern", hint='Queue("emails", group=…)')
        if prefetch < 1 or members < 1:
            raise QueueUnusable("prefetch and members are at least 1")
        if start not in get_args(StartAt):
            raise QueueUnusable(
                f"start={start!r} is unknown", hint=f"choose one of {', '.join(get_args(StartAt))}"
            )
        self.group = group
        self._topics = topics
        self._pattern = None if pattern is None else re.compile(pattern)
        self._prefetch = prefetch
        self._members = members
        self._timeout_s = timeout_s
        # Members alone log between two calls: that the broker is away.
        self._member_log_level = (config or {}).get("log_level", 3)
        self._client_config = client_config(bootstrap, config)
        self.bootstrap: str = self._client_config["bootstrap.servers"]
        self._cluster = Cluster(self.bootstrap, timeout_s=timeout_s, config=config)
        self._start = start
        self._is_ordered = ordered
        self._dead_letter_topic = dead_letter_topic(group) if dead_letters is None else dead_letters
        self._is_open = self._is_stopped = self._is_closed = False
        self._deliveries: Deliveries | None = None
        self._outbox = Outbox(self._client_config, timeout_s)
        self._put_failures: list[MessageNotStored] = []
        self._requests = Requests(self._cluster, self._outbox, self._client_config)

    # Opening and closing

    def __enter__(self) -> Self:
        if not self._is_open:
            self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect.

        Raises QueueUnusable if no broker answers, it does not support queues, or a topic is missing.
        """
        if self._is_closed:
            raise QueueUnusable("the queue was closed", hint="create another one")
        with queue_errors():
            require_broker(self.bootstrap, self._timeout_s)
            self._cluster.require_topics(self._topics, appear_s_max=TOPIC_APPEARS_S_MAX)
            if self.group:
                self._deliveries = self._open_deliveries()
        self._topics_seen = set(self._topics)
        if self._deliveries is not None and self._is_stopped:
            self._deliveries.stop()
        self._is_open = True

    def _open_deliveries(self) -> Deliveries:
        wanted = wanted_settings(
            start=self._start, dead_letter_topic=self._dead_letter_topic, is_ordered=self._is_ordered
        )
        settings = ensure_settings(self._cluster, self.group, wanted)
        if self._is_ordered:
            _require_order(self.group, settings)
        rejections = Rejections(
            self._cluster,
            self._outbox,
            group=self.group,
            settings=settings,
            dead_letter_topic=self._dead_letter_topic,
        )
        return Deliveries(
            self.group,
            {**self._client_config, "log_level": self._member_log_level},
            topics=self._current_topics(),
            rejections=rejections,
            replies=Replies(self._outbox),
            prefetch=self._prefetch,
            members=self._members,
            is_ordered=settings.is_ordered,
            lock_s=settings.lock_s,
            timeout_s=self._timeout_s,
        )

    def _current_topics(self) -> Callable[[], Sequence[str]]:
        if self._pattern is None:
            return lambda: self._topics
        # Never the group's own dead letters: a rejected message would be redelivered immediately.
        return MatchingTopics(self._cluster, self._pattern, exclude=self._dead_letter_topic).current

    def stop(self) -> None:
        """End `for` loops, `run` and waiting `get`s, in any thread. May be called from a signal handler."""
        self._is_stopped = True
        if self._deliveries is not None:
            self._deliveries.stop()

    def close(self) -> None:
        """Wait until the broker has all acknowledgements and messages, release the other messages, leave the group."""
        self.stop()
        self._is_open, self._is_closed = False, True
        if self._deliveries is not None:
            self._deliveries.close()
        self._requests.close()
        self._outbox.close()
        if self._put_failures:
            logger.error("%d messages were not stored: %s", len(self._put_failures), self._put_failures[0])

    # Taking messages

    def __iter__(self) -> Iterator[Message]:
        """Messages as they are delivered, until `stop()`."""
        while (message := self.get()) is not None:
            yield message

    def get(self, timeout: float | None = None) -> Message | None:
        """The next message; None if none is delivered within `timeout` seconds, or the queue is stopped."""
        return self.deliveries.take(timeout, lambda: True)

    @property
    def deliveries(self) -> Deliveries:
        """The worker's side, of an open queue with a group."""
        if not self.group:
            raise QueueUnusable(
                "a queue without a group takes no messages", hint='Queue("emails", group="senders")'
            )
        if self._deliveries is None:
            raise QueueUnusable("the queue is not open", hint="use it inside `with`")
        return self._deliveries

    def run(
        self,
        handler: Callable[[Message], object],
        *,
        concurrency: int = 1,
        reject_on: Errors = (),
        count: int | None = None,
        stop_when_idle_s: float | None = None,
    ) -> None:
        """Call `handler` with each message, in `concurrency` threads, until SIGTERM, Ctrl-C or `stop()`.

        A message is accepted when the handler returns; what it returns is the reply to a request. If the handler
        raises, the message is released, so that it is redelivered until the group's delivery limit makes it a dead
        letter; an error in `reject_on` makes it one at once. In both cases the error is logged and is the letter's
        reason, and the reply to a request. A handler may acknowledge the message itself.

        After the first signal, running handlers finish and this returns. A second one does what it does without a
        queue: Ctrl-C raises KeyboardInterrupt, and the messages in flight are released. Signals reach the main thread
        only: in another thread, call `stop()`.

        count               end after this number of messages
        stop_when_idle_s    end when no message was delivered for this time
        """
        runner = Runner(
            lambda message: _handle(message, handler, reject_on),
            take=self.get,
            stop=self.stop,
            concurrency=concurrency,
            allowance=Allowance(count=count, idle_s=stop_when_idle_s),
        )
        with nullcontext() if self._is_open else self:
            self.raise_members(concurrency)
            with stopped_by_signals([self.stop]):
                runner.run()

    def raise_members(self, concurrency: int) -> None:
        """Add members, so that no worker waits for the message of another."""
        if concurrency < 1:
            raise QueueUnusable("concurrency is at least 1")
        members = min(concurrency, RUN_MEMBERS_MAX)
        self.deliveries.members_max = max(self.deliveries.members_max, members)

    # Putting messages

    def put(
        self,
        value: bytes | str,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        topic: str | None = None,
    ) -> MessageId:
        """Write a message and wait until it is stored; its topic, partition and offset. Raises MessageNotStored.

        topic   where to, if the queue reads several
        """
        return self._send(value, key=key, headers=headers, topic=topic).result()

    def put_nowait(
        self,
        value: bytes | str,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        topic: str | None = None,
    ) -> Future[MessageId]:
        """Write a message without waiting: the future is done when it is stored. `flush` waits for all of them."""
        stored = self._send(value, key=key, headers=headers, topic=topic)
        stored.add_done_callback(self._note_failure)
        return stored

    def _send(
        self, value: bytes | str, *, key: bytes | str | None, headers: Headers, topic: str | None
    ) -> Future[MessageId]:
        return self._outbox.send_when_room(self.topic_of_put(topic), value, key, headers)

    # Requests

    def request(
        self,
        value: bytes | str,
        *,
        timeout: float = TIMEOUT_S,
        key: bytes | str | None = None,
        headers: Headers = (),
        topic: str | None = None,
    ) -> Reply:
        """Write a message that asks for a reply, and wait for the reply of the worker that processes it.

        Raises RequestTimedOut if there is none within `timeout` seconds: workers skip the request from then on, and a
        reply that comes later is dropped. Raises HandlerFailed if the worker rejected the request, and MessageNotStored
        if it was not stored. Any number of threads may wait for replies at the same time.
        """
        topic = self.topic_of_put(topic)
        reply = self.request_nowait(value, timeout=timeout, key=key, headers=headers, topic=topic)
        try:
            return reply.result()
        except RequestTimedOut as error:
            raise self.explain(error, topic) from None

    def request_nowait(
        self,
        value: bytes | str,
        *,
        timeout: float = TIMEOUT_S,
        key: bytes | str | None = None,
        headers: Headers = (),
        topic: str | None = None,
    ) -> Future[Reply]:
        """Write a message that asks for a reply, without waiting: the future has the reply, or the error."""
        if timeout <= 0:
            raise QueueUnusable(f"timeout={timeout:g} is not above 0", hint="request(…, timeout=30)")
        if not timeout <= REQUEST_TIMEOUT_S_MAX:
            raise QueueUnusable(f"timeout={timeout:g} is not at most a day", hint="request(…, timeout=30)")
        return self._requests.send(
            self.topic_of_put(topic), content(value), key=key, headers=headers, timeout_s=timeout
        )

    def explain(self, error: RequestTimedOut, topic: str) -> RequestTimedOut:
        """The same error, with the hint that no worker reads the topic if that is so."""
        return self._requests.explain(error, topic)

    @property
    def late_replies(self) -> int:
        """Replies that were read after the time-out of their request, and dropped."""
        return self._requests.late

    @property
    def duplicate_replies(self) -> int:
        """Second replies to a request, which were dropped: the first one counts."""
        return self._requests.duplicate

    @property
    def expired_requests(self) -> int:
        """Requests that this queue accepted without processing them, because nobody waited for a reply any more."""
        return 0 if self._deliveries is None else self._deliveries.expired_requests

    def topic_of_put(self, topic: str | None) -> str:
        """The topic of a message; a topic that the queue does not read must exist, which is checked once."""
        if not self._is_open:
            raise QueueUnusable("the queue is not open", hint="use it inside `with`")
        if topic is None:
            if len(self._topics) != 1:
                raise QueueUnusable(
                    "the queue does not read exactly one topic", hint='name it: put(…, topic="emails")'
                )
            return self._topics[0]
        if topic not in self._topics_seen:
            with queue_errors():
                self._cluster.require_topics([topic], appear_s_max=TOPIC_APPEARS_S_MAX)
            self._topics_seen.add(topic)
        return topic

    @property
    def outbox(self) -> Outbox:
        return self._outbox

    def _note_failure(self, stored: Future[MessageId]) -> None:
        error = stored.exception()
        if isinstance(error, MessageNotStored):
            self._put_failures.append(error)

    # In flight

    def flush(self, timeout: float = TIMEOUT_S) -> None:
        """Wait until the broker has answered every acknowledgement and stored every message.

        Raises AcknowledgementLost if it rejected one, and MessageNotStored if a message of `put_nowait` was not stored.
        """
        if self._deliveries is not None:
            self._deliveries.flush(timeout)
        if not self._outbox.flush(timeout):
            raise MessageNotStored(
                f"messages were not confirmed within {timeout} s", hint="is the broker running?"
            )
        failures, self._put_failures = self._put_failures, []
        if failures:
            raise MessageNotStored(
                f"{len(failures)} messages were not stored, the first because: {failures[0].message}",
                hint=failures[0].hint,
            )

    @property
    def lock_s(self) -> float:
        """The lock timeout of a message."""
        return self.deliveries.lock_s

    @property
    def lost(self) -> int:
        """Acknowledgements that the broker rejected, mostly because the lock had timed out."""
        return 0 if self._deliveries is None else self._deliveries.lost


def _require_order(group: str, settings: GroupSettings) -> None:
    if ORDER not in settings.values:
        raise QueueUnusable(
            f"group {group} can't be ordered: the broker does not order messages by key",
            hint="ordered queues need Headrace's broker; on Apache Kafka use a consumer group",
        )
    if not settings.is_ordered:
        raise QueueUnusable(
            f"group {group} is not ordered: its setting {ORDER} is {settings.values[ORDER]}",
            hint=f"headrace queue alter {group} --config {ORDER}={ORDER_BY_KEY}",
        )


def _handle(message: Message, handler: Callable[[Message], object], reject_on: Errors) -> None:
    failure: BaseException | None = None
    try:
        result = handler(message)
        if message.is_request and not message.is_acknowledged:
            message.reply(result)  # type: ignore[arg-type]  # it is checked there
    except BaseException as error:
        failure = error
    message.acknowledge_by(failure, reject_on)
    raise_or_log(message, failure)
