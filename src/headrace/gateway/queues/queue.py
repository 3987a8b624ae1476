"""One queue in use: a topic and a group. Who gets which message, and what becomes of it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import AcknowledgeType, KafkaError
from confluent_kafka import Message as KafkaMessage
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.gateway.errors import BrokerUnavailable
from headrace.gateway.queues.consumer import Consumer
from headrace.gateway.queues.consumers import Consumers
from headrace.gateway.queues.errors import AcknowledgedOtherwise, LockEnded, NotAcknowledged
from headrace.gateway.queues.group import Group
from headrace.gateway.queues.leases import Lease, Leases, LeaseState
from headrace.queue.errors import QueueError
from headrace.queue.group_settings import GroupSettings
from headrace.queue.message import Delivery
from headrace.queue.verdicts import Verdicts

logger = logging.getLogger(__name__)

POLL_S = 0.25
"""A `receive` looks so often whether its client is still there, and waits at least so long for the broker."""

LEAVE_S = 1.0
"""For a consumer that found nothing, before the response. It takes as long as a fetch waits at the broker."""

LOCK_SHARE = 0.9
"""Of the lock, in which a receipt works: the lock began at the broker, and the acknowledgement has to arrive there."""

RELEASED_WHEN_LOCK_ENDED = "the client of the gateway did not acknowledge it before its lock ended"


class Acknowledgement(Struct, frozen=True):
    number: int
    how: AcknowledgeType
    reason: str = ""


class Queue:
    def __init__(self, topic: str, group: Group, consumers: Consumers, *, settings_s: float) -> None:
        self.topic = topic
        self._name = f"{topic}/{group.name}"
        self.receiving = 0
        self.used_at_s = time.monotonic()
        self._group = group
        self._consumers = consumers
        self._settings_s = settings_s
        self._settings_at_s = float("-inf")
        self._lock_s = 0.0
        self._verdicts: Verdicts | None = None
        self._numbers = itertools.count(1)
        self._opening = asyncio.Lock()
        self._expiring: set[asyncio.Task[None]] = set()
        self.leases = Leases()

    @property
    def is_unused(self) -> bool:
        return not (self.receiving or len(self.leases))

    # Receiving

    async def receive(self, count: int, wait_s: float, is_gone: Callable[[], bool]) -> list[Lease]:
        """At most `count` messages, as soon as there is one; none if none comes within `wait_s` seconds. `is_gone` is
        whether the client has disconnected: what it would have got is released."""
        self.receiving += 1
        try:
            await self._open()
            if ready := self.leases.take(count):
                return ready
            config = self._group.consumer_config()
            consumer = await self._consumers.borrow(self._name, config, self.topic, count)
            try:
                return await self._wait(consumer, count, wait_s, is_gone)
            finally:
                if not self.leases.of(consumer):
                    # Its fetch still waits at the broker, and would lock messages without a receiver.
                    await asyncio.wait({self._consumers.discard(consumer)}, timeout=LEAVE_S)
        finally:
            self.receiving -= 1
            self.used_at_s = time.monotonic()

    async def _wait(
        self, consumer: Consumer, count: int, wait_s: float, is_gone: Callable[[], bool]
    ) -> list[Lease]:
        began_s = time.monotonic()
        left_s = max(wait_s, POLL_S)
        while left_s > 0 and not is_gone():
            asked_s = time.monotonic()
            found = await consumer.poll(min(left_s, POLL_S))
            if is_gone():
                break
            if found:
                self._lock(consumer, found, until_s=asked_s + self._lock_s * LOCK_SHARE)
            if taken := self.leases.take(count):
                return taken
            if found:
                break  # their keys are held; the consumer is not free for another poll
            left_s = began_s + max(wait_s, POLL_S) - time.monotonic()
        if consumer.was_unavailable_since(began_s):
            raise BrokerUnavailable("the broker is unavailable", hint="send the same request later")
        return []

    async def _open(self) -> None:
        """Read the settings of the group, which operators may change at any time."""
        if time.monotonic() - self._settings_at_s <= self._settings_s:
            return
        async with self._opening:
            if time.monotonic() - self._settings_at_s <= self._settings_s:
                return
            is_new = self._verdicts is None
            settings = await self._consumers.run(self._group.open if is_new else self._group.settings)
            self._apply(settings)

    def _apply(self, settings: GroupSettings) -> None:
        self._lock_s = settings.lock_s
        self._verdicts = self._group.verdicts(settings)
        self.leases.is_ordered = settings.is_ordered
        self._settings_at_s = time.monotonic()

    def _lock(self, consumer: Consumer, found: Sequence[KafkaMessage], *, until_s: float) -> None:
        leases = [
            Lease(number=next(self._numbers), message=Delivery(each), consumer=consumer, until_s=until_s)
            for each in found
        ]
        self.leases.add(leases)
        left_s = until_s - time.monotonic()
        loop = asyncio.get_running_loop()
        consumer.timers = [
            loop.call_later(left_s / 2, self._release_later, consumer, {LeaseState.READY}),
            loop.call_later(left_s, self._release_later, consumer, {LeaseState.READY, LeaseState.HELD}),
        ]

    # Acknowledging

    async def acknowledge(self, wanted: Sequence[Acknowledgement]) -> list[HeadraceError | None]:
        """When the broker has answered: the error of each, None if it took it."""
        errors: dict[int, HeadraceError | None] = {}
        by_consumer: dict[Consumer, dict[Lease, Acknowledgement]] = defaultdict(dict)
        for each in wanted:
            lease = self.leases.get(each.number)
            if lease is None or lease.is_over:
                errors[each.number] = self._outcome(each)
            elif lease.state is not LeaseState.HELD:
                errors[each.number] = NotAcknowledged(
                    "another request acknowledges the message now", hint="send it again to see the outcome"
                )
            else:
                by_consumer[lease.consumer][lease] = each
        sending = asyncio.gather(*(self._send(*each) for each in by_consumer.items()))
        for found in await asyncio.shield(sending):
            errors |= found
        return [errors[each.number] for each in wanted]

    def _outcome(self, wanted: Acknowledgement) -> HeadraceError | None:
        how = self.leases.outcome(wanted.number)
        if how is wanted.how:
            return None
        if how is None:
            return LockEnded(
                "the lock of the message has ended", hint="it is delivered again; receive it again"
            )
        return AcknowledgedOtherwise(f"the message was acknowledged already: {how.name.lower()}")

    async def _send(
        self, consumer: Consumer, wanted: Mapping[Lease, Acknowledgement], *, is_by_client: bool = True
    ) -> dict[int, HeadraceError | None]:
        """To the broker. With a message that is released go those of its key that would overtake it."""
        released = [each for each, done in wanted.items() if done.how is AcknowledgeType.RELEASE]
        behind = [each for lease in released for each in self.leases.behind(lease) if each not in wanted]
        for lease in (*wanted, *behind):
            self.leases.begin(lease)
        sent: dict[Lease, AcknowledgeType] = {}
        errors: dict[int, HeadraceError | None] = {}

        def prepare() -> list[tuple[KafkaMessage, AcknowledgeType]]:
            for lease, each in wanted.items():
                try:
                    sent[lease] = self._prepared(lease, each)
                except QueueError as error:
                    errors[lease.number] = NotAcknowledged(error.message, hint=error.hint)
            sent.update(dict.fromkeys(behind, AcknowledgeType.RELEASE))
            return [(lease.message.raw, how) for lease, how in sent.items()]

        answers = await self._answers(consumer, prepare, sent)
        for lease, error in zip(sent, answers, strict=True):
            is_done = is_by_client and error is None and lease in wanted
            self.leases.end(lease, wanted[lease].how if is_done else None)
            errors[lease.number] = None if error is None else _problem(error)
            consumer.is_unsound = consumer.is_unsound or error is not None
        for lease in wanted.keys() - sent.keys():
            self.leases.hold_again(lease)
        self._free(consumer)
        return errors

    async def _answers(
        self,
        consumer: Consumer,
        prepare: Callable[[], Sequence[tuple[KafkaMessage, AcknowledgeType]]],
        sent: Mapping[Lease, AcknowledgeType],
    ) -> Sequence[KafkaError | None]:
        try:
            return await consumer.acknowledge(prepare)
        except Exception as error:  # whatever it is, no lease must stay in flight
            logger.exception("the acknowledgements of %d messages of topic %s failed", len(sent), self.topic)
            return [KafkaError(KafkaError._FAIL, str(error))] * len(sent)

    def _prepared(self, lease: Lease, wanted: Acknowledgement) -> AcknowledgeType:
        assert self._verdicts is not None
        return self._verdicts.prepare(lease.message, wanted.how, wanted.reason)

    def _free(self, consumer: Consumer) -> None:
        if self.leases.of(consumer) or self._consumers.is_unused(consumer):
            return
        for each in consumer.timers:
            each.cancel()
        if consumer.is_unsound:
            self._consumers.discard(consumer)
        else:
            self._consumers.put_back(consumer, self._name)

    # Locks that end

    def _release_later(self, consumer: Consumer, states: set[LeaseState]) -> None:
        ended = {
            each: Acknowledgement(each.number, AcknowledgeType.RELEASE, RELEASED_WHEN_LOCK_ENDED)
            for each in self.leases.of(consumer)
            if each.state in states
        }
        for lease in ended:
            lease.is_over = True
        if ended:
            task = asyncio.create_task(self._release(consumer, ended))
            self._expiring.add(task)
            task.add_done_callback(self._expiring.discard)

    async def _release(self, consumer: Consumer, ended: Mapping[Lease, Acknowledgement]) -> None:
        """A client has not acknowledged them in time, or none has received them."""
        await self._send(consumer, ended, is_by_client=False)
        for each in ended:
            if each.state is not LeaseState.DONE:
                # Its reason could not be stored. The lock at the broker ends in a moment.
                self.leases.end(each, None)
                consumer.is_unsound = True
        self._free(consumer)


def _problem(error: KafkaError) -> HeadraceError:
    if error.code() in (KafkaError.INVALID_RECORD_STATE, KafkaError.SHARE_SESSION_NOT_FOUND):
        return LockEnded(
            f"the broker does not know the lock any more: {error.str()}",
            hint="it was restarted, or the lock has ended: the message is delivered again",
        )
    return NotAcknowledged(
        f"the broker did not confirm it: {error.str()}", hint="the message may be delivered again"
    )
