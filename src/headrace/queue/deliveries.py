"""The messages that the members of one queue have locked: taking and acknowledging them.

One or more members of a share group fetch messages in batches; threads take them one by one. A thread uses a member
under one lock, except while it polls: no other thread uses a member that is polled.

In an ordered group the broker delivers all messages in flight of a key to one member, in order. Here they are taken one
after the other: the next one when the last one is acknowledged. If it is released, those behind it go back, too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import AcknowledgeType

from headrace.clock import SystemClock
from headrace.queue.errors import AcknowledgementLost, AlreadyAcknowledged, NotARequest
from headrace.queue.member import SERVE_S, Member
from headrace.queue.message import Message
from headrace.queue.rejections import Rejections
from headrace.queue.replies import Replies
from headrace.queue.reply_to import content, reply_to
from headrace.queue.verdicts import Verdicts

logger = logging.getLogger("headrace.queue")

_Lane = tuple[str, int, bytes]
"""Topic, partition and key."""

POLL_S_MAX = 0.25
"""The longest that `stop()` from another thread waits; the broker answers as soon as it has a message."""


class Deliveries:
    def __init__(
        self,
        group: str,
        member_config: Mapping[str, Any],
        *,
        topics: Callable[[], Sequence[str]],
        rejections: Rejections,
        replies: Replies,
        prefetch: int,
        members: int,
        is_ordered: bool,
        lock_s: float,
        timeout_s: float,
    ) -> None:
        self._group = group
        self._member_config = {
            **member_config,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": prefetch,
        }
        self._topics = topics
        self._verdicts = Verdicts(rejections, replies)
        self._replies = replies
        self.expired_requests = 0
        """Requests that were accepted without processing them, because nobody waits for their replies."""
        self._prefetch = prefetch
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._has_waiting = threading.Event()
        self._members: list[Member] = []
        self._polling: set[Member] = set()
        self._ready: deque[Message] = deque()
        self._is_ordered = is_ordered
        self._lanes_at_work: set[_Lane] = set()
        self._lost_reported = 0
        self._is_open, self._is_stopped = True, False
        self.members_max = members
        self.lock_s = lock_s
        self._add_member()
        threading.Thread(target=self._serve_waiting, name=f"queue-{group}", daemon=True).start()

    def stop(self) -> None:
        self._is_stopped = True

    def close(self) -> None:
        """Wait until the broker has all acknowledgements, release the other messages, leave the group."""
        self.stop()
        with self._changed:
            while self._polling:
                self._changed.wait(POLL_S_MAX)
            self._is_open = False
            self._ready.clear()
            self._close_idle_members()
            for member in self._members:
                member.close(self._timeout_s)
        self._has_waiting.set()

    def _close_idle_members(self) -> None:
        """The client fetches in the background: an open member would lock messages that no worker takes."""
        with self._changed:
            for member in self._members:
                if member.held == 0 and member not in self._polling:
                    member.close(self._timeout_s)

    # Taking

    def take(self, timeout: float | None, is_wanted: Callable[[], bool]) -> Message | None:
        """The next message; None if none is delivered within `timeout` seconds, or once none is wanted."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while is_wanted() and not self._is_stopped:
            left_s = POLL_S_MAX
            if deadline_s is not None:
                left_s = max(min(left_s, deadline_s - time.monotonic()), 0)
            with self._changed:
                if self._is_stopped:
                    break  # another thread may have closed the idle members already
                message = self._take_wanted()
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
                    message = self._take_wanted()
                if message is not None:
                    return message
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return None
        if self._is_stopped:
            self._close_idle_members()
        return None

    def put_back(self, message: Message) -> None:
        """Return a message whose caller was cancelled: the next `take` gets it."""
        with self._changed:
            if self._is_open:
                self._ready.appendleft(message)
                self._leave_lane(message)
                self._changed.notify_all()

    def _take_wanted(self) -> Message | None:
        """The next message, without requests whose time is over."""
        while (message := self._take_ready()) is not None:
            to = reply_to(message.headers)
            if to is None or to.deadline_ms > SystemClock().now_ms():
                break
            logger.info("request %s in %s is over its deadline, and dropped", to.request_id, message.id)
            self.expired_requests += 1
            self.acknowledge(message, AcknowledgeType.ACCEPT, "")
        return message

    def _take_ready(self) -> Message | None:
        """The next message whose lock has not timed out here, and whose key no other worker processes."""
        now_s = time.monotonic()
        while self._ready and self._ready[0].locked_until_s <= now_s:
            self._drop_expired(now_s)
        if not self._is_ordered:
            return self._ready.popleft() if self._ready else None
        for place, message in enumerate(self._ready):
            lane = _lane(message)
            if lane is None or lane not in self._lanes_at_work:
                if message.locked_until_s <= now_s:
                    self._drop_expired(now_s)
                    return self._take_ready()
                del self._ready[place]
                if lane is not None:
                    self._lanes_at_work.add(lane)
                return message
        return None

    def _leave_lane(self, message: Message) -> None:
        if self._is_ordered and (lane := _lane(message)) is not None:
            self._lanes_at_work.discard(lane)

    def _release_behind(self, message: Message) -> None:
        """The messages of its key that the member has would overtake it."""
        lane = _lane(message)
        behind = [each for each in self._ready if lane is not None and _lane(each) == lane]
        for each in behind:
            self._ready.remove(each)
            each.is_acknowledged = True
            each.member.acknowledge(each.raw, AcknowledgeType.RELEASE)

    def _drop_expired(self, now_s: float) -> None:
        """The broker redelivers them to another worker: processing them here too would duplicate the work."""
        expired = [each for each in self._ready if each.locked_until_s <= now_s]
        self._ready = deque(each for each in self._ready if each.locked_until_s > now_s)
        logger.warning(
            "the locks of %d messages of group %s timed out before a worker took them, and used up a delivery of each: "
            "lower prefetch (%d), or raise share.record.lock.duration.ms (%d) of the group",
            *(len(expired), self._group, self._prefetch, self.lock_s * 1000),
        )
        for member in {each.member for each in expired}:
            # One rejected acknowledgement fails the whole request: the valid ones are sent before it.
            member.flush(self._timeout_s)
        for message in expired:
            message.is_acknowledged = True
            message.member.acknowledge(message.raw, AcknowledgeType.RELEASE)
        for member in {each.member for each in expired}:
            member.flush(self._timeout_s)

    def _idle_member(self) -> Member | None:
        """A member that can be polled now; a new one only if all others hold messages."""
        for member in self._members:
            if member.held == 0 and member not in self._polling:
                return member
        may_add = not self._polling and len(self._members) < self.members_max
        return self._add_member() if may_add else None

    def _add_member(self) -> Member:
        member = Member(self._member_config)
        self._members.append(member)
        return member

    def _fill(self, member: Member, timeout_s: float) -> None:
        """Poll for messages, in the only thread that polls this member."""
        polled = []
        try:
            topics = self._topics()
            if topics:
                member.subscribe(topics)
                polled = member.poll(timeout_s)
            else:
                time.sleep(timeout_s)
        finally:
            with self._changed:
                locked_until_s = time.monotonic() + self.lock_s
                self._ready.extend(Message(self, member, raw, locked_until_s) for raw in polled)
                self._polling.discard(member)
                # The others are polled first next time: each member may have partitions of its own.
                self._members = [*(each for each in self._members if each is not member), member]
                self._changed.notify_all()

    # Acknowledging

    def acknowledge(self, message: Message, how: AcknowledgeType, reason: str) -> None:
        """Acknowledge a message: `accept`, `release` or `reject`."""
        self._require_held(message)
        how = self._verdicts.prepare(message, how, reason)
        with self._changed:
            self._require_held(message)
            member = message.member
            is_late = message.locked_until_s <= time.monotonic()
            if is_late:
                # It is likely rejected, and the whole request with it.
                member.flush(self._timeout_s)
            message.is_acknowledged = True
            member.acknowledge(message.raw, how)
            if self._is_ordered:
                if how is AcknowledgeType.RELEASE:
                    self._release_behind(message)
                self._leave_lane(message)
            if is_late:
                member.flush(self._timeout_s)
            elif member.has_waiting and not self._has_waiting.is_set():
                self._has_waiting.set()
            if member.held == 0 or self._is_ordered:
                self._changed.notify_all()

    def reply(self, message: Message, value: bytes | str | None) -> None:
        """Write the reply to a request, and accept the request."""
        self._require_held(message)
        to = reply_to(message.headers)
        if to is None:
            raise NotARequest(
                f"{message.id} does not ask for a reply",
                hint="accept it; Queue.request sends messages that do",
            )
        self._replies.send(to, content(value))
        self.acknowledge(message, AcknowledgeType.ACCEPT, "")

    def flush(self, timeout: float) -> None:
        """Wait until the broker has answered every acknowledgement; raises AcknowledgementLost if it rejected some."""
        deadline_s = time.monotonic() + timeout
        while True:
            with self._changed:
                self._serve()
                if not any(member.unconfirmed for member in self._members):
                    break
            if time.monotonic() > deadline_s:
                raise AcknowledgementLost(f"no answer within {timeout} s", hint="is the broker running?")
            time.sleep(SERVE_S)
        if self.lost > self._lost_reported:
            count, self._lost_reported = self.lost - self._lost_reported, self.lost
            raise AcknowledgementLost(
                f"{count} acknowledgements were rejected, their messages are delivered again",
                hint="the broker was restarted, or their locks had timed out: then lower prefetch, or raise the "
                "group's share.record.lock.duration.ms",
            )

    @property
    def lost(self) -> int:
        return sum(member.lost for member in self._members)

    def _serve(self) -> None:
        """Process the broker's answers. A member that is polled does it as part of polling."""
        for member in self._members:
            if member not in self._polling and member.unconfirmed:
                member.serve()

    def _serve_waiting(self) -> None:
        """In a thread: send waiting acknowledgements even if all workers are busy."""
        while self._is_open:
            self._has_waiting.wait()
            with self._changed:
                if self._is_open:
                    self._serve()
                if not any(member.has_waiting for member in self._members):
                    self._has_waiting.clear()
            time.sleep(SERVE_S)

    def _require_held(self, message: Message) -> None:
        if message.is_acknowledged:
            raise AlreadyAcknowledged(f"{message.id} was accepted, released or rejected already")
        if not self._is_open:
            raise AlreadyAcknowledged(f"{message.id} was released when its queue was closed")


def _lane(message: Message) -> _Lane | None:
    """None for a message without a key, which is not ordered."""
    key = message.key
    return None if key is None else (message.topic, message.partition, key)
