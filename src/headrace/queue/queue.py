"""A queue as its worker sees it: the next message, and nothing lost.

One or more members of a share group bring messages in batches; threads take them one by one. Everything that a thread
does to a member happens under one lock, except waiting for messages: then nobody else has a reason to touch it.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import AcknowledgeType, KafkaException
from confluent_kafka.admin import AdminClient

from headrace.queue.errors import AcknowledgementLost, MessageSettled, QueueUnusable
from headrace.queue.group_settings import (
    DEAD_LETTER_COPY,
    DEAD_LETTER_TOPIC,
    OFFSET_RESET,
    ensure_settings,
)
from headrace.queue.letters import default_topic
from headrace.queue.member import SERVE_S, Member
from headrace.queue.message import Message
from headrace.queue.rejections import Rejections

logger = logging.getLogger("headrace.queue")

POLL_S_MAX = 0.25
"""The longest that `stop()` from another thread has to wait; the broker answers as soon as there is a message."""

PATTERN_REFRESH_S = 5.0
"""How often topics are looked for that match a pattern; their messages wait, none is missed."""

PREFETCH = 50
"""Enough to hide the way to the broker, few enough that a lock of 30 s covers messages of half a second each."""

TIMEOUT_S = 30.0
"""For everything that the broker answers at once unless it is down."""


class Queue:
    """Messages of topics, each handed to one worker of a group.

        with Queue("emails", group="senders", bootstrap="127.0.0.1:9092") as queue:
            for message in queue:
                send(message.value)
                message.accept()

    Leaving the context waits until the broker has all acknowledgements, and gives back what was not acknowledged.
    Any number of threads may take messages from one queue; a message belongs to the thread that took it.

    topics, pattern   what to read: names, or a regular expression that matches whole names, new topics included
    group             who shares the messages; every group gets all of them
    prefetch          how many messages to hold locked at a time, at most. Apache Kafka takes it as a wish and hands
                      out whole batches, as the producer made them.
    members           how many members of the group this queue may become. The client gives no next messages before
                      the last ones are all settled; with as many members as threads, a slow one keeps no other waiting.
    begin             where a new group begins: "earliest" (default) or "latest". A group that was told keeps to it.
    dead_letters      the topic for rejected messages, `dlq.GROUP` by default; "" for none. A group that was told keeps
                      to it.
    config            more settings for confluent-kafka's clients, such as those for TLS
    """

    def __init__(
        self,
        *topics: str,
        group: str,
        bootstrap: str,
        pattern: str | re.Pattern[str] | None = None,
        prefetch: int = PREFETCH,
        members: int = 1,
        begin: str = "earliest",
        dead_letters: str | None = None,
        config: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if bool(topics) == (pattern is not None):
            raise QueueUnusable("a queue needs topics or a pattern", hint='Queue("emails", group=…)')
        if prefetch < 1 or members < 1:
            raise QueueUnusable("prefetch and members are at least 1")
        self.group = group
        self._topics = topics
        self._pattern = None if pattern is None else re.compile(pattern)
        self._prefetch = prefetch
        self._members_max = members
        self._timeout_s = timeout_s
        # Errors come back from calls; only members have something to say when nobody calls: that the broker is away.
        self._member_log_level = (config or {}).get("log_level", 3)
        self._client_config = {"bootstrap.servers": bootstrap, "log_level": 0, **(config or {})}
        self._dead_letter_topic = default_topic(group) if dead_letters is None else dead_letters
        self._settings_wanted = {OFFSET_RESET: begin}
        if self._dead_letter_topic:
            self._settings_wanted[DEAD_LETTER_TOPIC] = self._dead_letter_topic
            self._settings_wanted[DEAD_LETTER_COPY] = "true"
        self._changed = threading.Condition()
        self._has_waiting = threading.Event()
        self._members: list[Member] = []
        self._polling: set[Member] = set()
        self._ready: deque[Message] = deque()
        self._matched: Sequence[str] = topics
        self._matched_at_s = float("-inf")
        self._lost_told = 0
        self._is_open = self._is_stopped = False

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
        """Join the group. Raises QueueUnusable if the broker does not answer, or has no queues."""
        self._admin = AdminClient(dict(self._client_config))
        settings = ensure_settings(self._admin, self.group, self._settings_wanted, self._timeout_s)
        self._lock_s = settings.lock_s
        self._rejections = Rejections(
            self._admin,
            self._client_config,
            group=self.group,
            settings=settings,
            dead_letter_topic=self._dead_letter_topic,
            timeout_s=self._timeout_s,
        )
        self._is_open = True
        self._add_member()
        threading.Thread(target=self._serve_waiting, name=f"queue-{self.group}", daemon=True).start()

    def stop(self) -> None:
        """Let `for` loops and waiting `get`s end, in whichever thread they are. May be called from a signal handler."""
        self._is_stopped = True

    def close(self) -> None:
        """Wait until acknowledgements are with the broker, give back the rest, leave the group."""
        self.stop()
        with self._changed:
            while self._polling:
                self._changed.wait(POLL_S_MAX)
            self._is_open = False
            self._ready.clear()
            for member in self._members:
                member.close(self._timeout_s)
        self._has_waiting.set()

    # Taking messages

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, until `stop()`."""
        while (message := self.get()) is not None:
            yield message

    def get(self, timeout: float | None = None) -> Message | None:
        """The next message; None if none comes within `timeout` seconds, or the queue is stopped."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while not self._is_stopped:
            left_s = POLL_S_MAX
            if deadline_s is not None:
                left_s = max(min(left_s, deadline_s - time.monotonic()), 0)
            with self._changed:
                if not self._is_open:
                    raise QueueUnusable("the queue is not open", hint="use it inside `with`")
                message = self._take()
                if message is not None:
                    return message
                member = self._idle_member()
                if member is None:
                    self._changed.wait(left_s)
                else:
                    self._polling.add(member)
            if member is not None:
                self._fill(member, left_s)
                with self._changed:
                    message = self._take()
                if message is not None:
                    return message
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return None
        return None

    def _take(self) -> Message | None:
        """The next one whose lock has not ended while it waited here for its turn."""
        now_s = time.monotonic()
        while self._ready and self._ready[0].locked_until_s <= now_s:
            self._drop_expired(now_s)
        return self._ready.popleft() if self._ready else None

    def _drop_expired(self, now_s: float) -> None:
        """The broker gives them to somebody else by now: to work on them would be to work twice."""
        expired = [each for each in self._ready if each.locked_until_s <= now_s]
        self._ready = deque(each for each in self._ready if each.locked_until_s > now_s)
        logger.warning(
            "the locks of %d messages of group %s ended before their turn came, and one delivery of each is used up: "
            "lower prefetch (%d), or raise share.record.lock.duration.ms (%d) of the group",
            *(len(expired), self.group, self._prefetch, self._lock_s * 1000),
        )
        for member in {each.member for each in expired}:
            # One refused acknowledgement fails the whole request: the good ones go before, alone.
            member.settle_all(self._timeout_s)
        for message in expired:
            message.is_settled = True
            message.member.acknowledge(message.raw, AcknowledgeType.RELEASE)
        for member in {each.member for each in expired}:
            member.settle_all(self._timeout_s)

    def _idle_member(self) -> Member | None:
        """A member that can be polled now: one more only if all have their hands full."""
        for member in self._members:
            if member.held == 0 and member not in self._polling:
                return member
        may_add = not self._polling and len(self._members) < self._members_max
        return self._add_member() if may_add else None

    def _add_member(self) -> Member:
        config = {
            **self._client_config,
            "log_level": self._member_log_level,
            "group.id": self.group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": self._prefetch,
        }
        member = Member(config)
        self._members.append(member)
        return member

    def _fill(self, member: Member, timeout_s: float) -> None:
        """Get messages; only the thread that took `member` for polling is here with it."""
        polled = []
        try:
            topics = self._current_topics()
            if topics:
                member.subscribe(topics)
                polled = member.poll(timeout_s)
            else:
                time.sleep(timeout_s)
        finally:
            with self._changed:
                locked_until_s = time.monotonic() + self._lock_s
                self._ready.extend(Message(self, member, raw, locked_until_s) for raw in polled)
                self._polling.discard(member)
                self._changed.notify_all()

    def _current_topics(self) -> Sequence[str]:
        now_s = time.monotonic()
        if self._pattern is None or now_s < self._matched_at_s + PATTERN_REFRESH_S:
            return self._matched
        try:
            there = list(self._admin.list_topics(timeout=self._timeout_s).topics)
        except KafkaException as error:
            logger.warning("topics can't be listed, going on with those known: %s", error.args[0].str())
            there = list(self._matched)
        self._matched_at_s = now_s
        self._matched = sorted(name for name in there if self._is_match(name))
        return self._matched

    def _is_match(self, name: str) -> bool:
        """Never the group's own dead letters: a message that is rejected would come back at once."""
        assert self._pattern is not None
        is_ours = name.startswith("__") or name == self._dead_letter_topic
        return not is_ours and self._pattern.fullmatch(name) is not None

    # Settling messages

    def settle(self, message: Message, how: AcknowledgeType, reason: str) -> None:
        """What `accept`, `release` and `reject` of a message do."""
        self._require_held(message)
        is_given_up = how is AcknowledgeType.REJECT
        if how is AcknowledgeType.RELEASE and self._rejections.is_last_delivery(message):
            # The broker gives it up now. One that writes no letters would do so without a trace.
            is_given_up = True
            if self._rejections.writes_letters:
                how = AcknowledgeType.REJECT
                reason = reason or f"delivery limit of {message.delivery_count} reached"
        if is_given_up:
            self._rejections.prepare(message, reason)
        with self._changed:
            self._require_held(message)
            member = message.member
            is_late = message.locked_until_s <= time.monotonic()
            if is_late:
                # It is likely refused, and would take the others of its request with it.
                member.settle_all(self._timeout_s)
            message.is_settled = True
            member.acknowledge(message.raw, how)
            if is_late:
                member.settle_all(self._timeout_s)
            elif member.has_waiting and not self._has_waiting.is_set():
                self._has_waiting.set()
            if member.held == 0:
                self._changed.notify_all()

    def _serve(self) -> None:
        """Take the broker's answers. A member that is polled does so by itself."""
        for member in self._members:
            if member not in self._polling and member.unconfirmed:
                member.serve()

    def _serve_waiting(self) -> None:
        """In a thread: acknowledgements that wait for others go out even if all workers are busy."""
        while self._is_open:
            self._has_waiting.wait()
            with self._changed:
                if self._is_open:
                    self._serve()
                if not any(member.has_waiting for member in self._members):
                    self._has_waiting.clear()
            time.sleep(SERVE_S)

    def _require_held(self, message: Message) -> None:
        if message.is_settled:
            raise MessageSettled(f"{message.place} was accepted, released or rejected already")
        if not self._is_open:
            raise MessageSettled(f"{message.place} went back to the others when its queue was closed")

    def flush(self, timeout: float = TIMEOUT_S) -> None:
        """Wait until the broker has every acknowledgement so far; raises AcknowledgementLost if it refused some."""
        deadline_s = time.monotonic() + timeout
        while True:
            with self._changed:
                self._serve()
                if not any(member.unconfirmed for member in self._members):
                    break
            if time.monotonic() > deadline_s:
                raise AcknowledgementLost(f"no answer within {timeout} s", hint="is the broker running?")
            time.sleep(SERVE_S)
        lost = sum(member.lost for member in self._members)
        if lost > self._lost_told:
            count, self._lost_told = lost - self._lost_told, lost
            raise AcknowledgementLost(
                f"{count} acknowledgements were refused, their messages are delivered again",
                hint="the broker was restarted, or their locks had ended: then lower prefetch, or raise the "
                "group's share.record.lock.duration.ms",
            )

    @property
    def lock_s(self) -> float:
        """How long a message is locked for whoever took it."""
        return self._lock_s

    @property
    def lost(self) -> int:
        """Acknowledgements that the broker refused so far, mostly because they came after the lock's end."""
        return sum(member.lost for member in self._members)
