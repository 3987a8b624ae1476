"""Performs the steps of the newer protocol: appends changes, runs time-outs, answers requests.

A request changes its group at once, or not at all: a change that can't be appended is undone. Only answers to static
members wait for the disk. If a power cut loses a change, the epochs show it: a member that is ahead of the broker has
to join again.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from headrace.broker.configs.group_configs import CONSUMER_SESSION_TIMEOUT, GroupConfigs
from headrace.broker.groups import consumer, consumer_classic, storage
from headrace.broker.groups.consumer import ConsumerAnswer, ConsumerHeartbeat, timer_due
from headrace.broker.groups.consumer_migration import downgraded, upgrade
from headrace.broker.groups.consumer_state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    MemberState,
)
from headrace.broker.groups.consumer_step import Arm, ConsumerStep, ConsumerTimer
from headrace.broker.groups.consumer_storage import entries, facts, tombstones
from headrace.broker.groups.events import (
    Heartbeat,
    HeartbeatAnswer,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Sync,
    SyncAnswer,
)
from headrace.broker.groups.state import Group
from headrace.broker.partition import Pending
from headrace.broker.refusals import RequestRefused
from headrace.broker.state_topic import KeyValue, StateTopic
from headrace.broker.timers import Timers
from headrace.broker.topics import Topic, Topics
from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")


class ConsumerTimerKey(Struct, frozen=True):
    group_id: str
    kind: ConsumerTimer
    member_id: str


class TopicCatalog:
    """The broker's topics as groups see them. A pattern matches internal topics too, as in Kafka."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    @property
    def version(self) -> int:
        return self._topics.version

    def find(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        topic = self._topics.get_by_id(topic_id)
        return None if topic is None else topic.name

    def names(self) -> Iterable[str]:
        return (topic.name for topic in self._topics)


class Done(Struct, frozen=True):
    """An answer, and what has to be durable before it is sent."""

    answer: ConsumerAnswer
    pending: Pending | None


class ConsumerMembers:
    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        *,
        members_max: int,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        topics: Topics,
        state: StateTopic,
        configs: GroupConfigs,
        become_classic: Callable[[Group], None],
    ) -> None:
        self.groups = groups
        self._members_max = members_max
        self._loop = loop
        self._clock = clock
        self._topics = topics
        self._topic = state
        self._configs = configs
        self._become_classic = become_classic
        self._catalog = TopicCatalog(topics)
        self.timers: Timers[ConsumerTimerKey] = Timers(loop, clock, self._timer_due)

    def __len__(self) -> int:
        return len(self.groups)

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self.groups.get(group_id)

    def loaded(self, groups: dict[str, ConsumerGroup]) -> None:
        """Members from before the restart are alive until their sessions time out."""
        self.groups.update(groups)
        for group in groups.values():
            step = self._step(group)
            for member in group.members.values():
                step.arm_session(member)
                if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    timeout_ms = member.rebalance_timeout_ms
                    step.timers.append(Arm(ConsumerTimer.REBALANCE, member.member_id, timeout_ms))
            self._run_timers(step)

    def close(self) -> None:
        self.timers.close()

    # Members of the newer protocol

    def heartbeat(self, group_id: str, heartbeat: ConsumerHeartbeat, classic: Group | None) -> Done:
        """`classic` is the classic group with this name, which the member upgrades to the newer protocol."""
        group = self.groups.get(group_id)
        if heartbeat.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            if group is None:
                raise _no_group(group_id)
            return self._perform(self._step(group), lambda step: consumer.leave(step, heartbeat))
        if group is not None:
            return self._perform(self._step(group), lambda step: consumer.heartbeat(step, heartbeat))
        if heartbeat.member_epoch != JOIN_EPOCH:
            raise _no_group(group_id)
        return self._first_heartbeat(ConsumerGroup(group_id), heartbeat, classic)

    def _first_heartbeat(
        self, group: ConsumerGroup, heartbeat: ConsumerHeartbeat, classic: Group | None
    ) -> Done:
        def join(step: ConsumerStep) -> ConsumerAnswer:
            if classic is not None and classic.members:
                upgrade(step, classic)
            return consumer.heartbeat(step, heartbeat)

        before = [] if classic is None else [storage.group_tombstone(group.group_id)]
        done = self._perform(self._step(group), join, before)
        self.groups[group.group_id] = group
        return done

    def _perform(
        self,
        step: ConsumerStep,
        act: Callable[[ConsumerStep], ConsumerAnswer],
        before: Sequence[KeyValue] = (),
    ) -> Done:
        return Done(*self._run(step, act, before))

    # Members of the classic protocol

    def classic_join(self, group: ConsumerGroup, join: Join) -> asyncio.Future[JoinAnswer]:
        """Answered at once, unless its new id has to be on disk first."""
        future: asyncio.Future[JoinAnswer] = self._loop.create_future()
        try:
            answer, pending = self._run(self._step(group), lambda step: consumer_classic.join(step, join))
        except RequestRefused as refused:
            future.set_result(JoinAnswer(error=refused.code, member_id=join.member_id))
            return future
        if pending is None:
            future.set_result(answer)
        else:
            self._topic.durable(pending).add_done_callback(
                lambda flushed: _answer_join(future, answer, flushed)
            )
        return future

    def classic_sync(self, group: ConsumerGroup, sync: Sync) -> SyncAnswer:
        try:
            return self._run(self._step(group), lambda step: consumer_classic.sync(step, sync))[0]
        except RequestRefused as refused:
            return SyncAnswer(error=refused.code)

    def classic_heartbeat(self, group: ConsumerGroup, heartbeat: Heartbeat) -> HeartbeatAnswer:
        try:
            return self._run(self._step(group), lambda step: consumer_classic.heartbeat(step, heartbeat))[0]
        except RequestRefused as refused:
            return HeartbeatAnswer(error=refused.code)

    def classic_leave(self, group: ConsumerGroup, leave: Leave) -> LeaveAnswer:
        try:
            return self._run(self._step(group), lambda step: consumer_classic.leave(step, leave))[0]
        except RequestRefused as refused:
            return LeaveAnswer(error=refused.code)

    # Offsets

    def check_commit(
        self,
        group: ConsumerGroup,
        partitions: Iterable[tuple[str, int]],
        *,
        member_id: str,
        epoch: int,
        says_epoch: bool,
    ) -> ErrorCode:
        """Whether offsets may be committed. `says_epoch`: the request has a version with a member epoch."""
        if epoch < 0 and not group.members:
            return ErrorCode.NONE  # a tool, or a consumer that assigns partitions to itself
        member = group.members.get(member_id)
        if member is not None and member.classic is None and not says_epoch:
            return ErrorCode.UNSUPPORTED_VERSION
        covers = frozenset(
            (topic.id, partition)
            for name, partition in partitions
            if (topic := self._topics.get(name)) is not None
        )
        return consumer.check_epoch_of(group, member_id, epoch, covers=covers)

    # Groups as a whole

    def forget(self, group: ConsumerGroup) -> None:
        """Remove a group from memory; its `tombstones` remove it from the log."""
        del self.groups[group.group_id]
        for member_id in group.members:
            for kind in ConsumerTimer:
                self.timers.cancel(ConsumerTimerKey(group.group_id, kind, member_id))

    # Performing

    def _step(self, group: ConsumerGroup) -> ConsumerStep:
        return ConsumerStep(
            group=group,
            catalog=self._catalog,
            now_ms=self._clock.now_ms(),
            session_timeout_ms=self._configs.value(group.group_id, CONSUMER_SESSION_TIMEOUT),
            members_max=self._members_max,
        )

    def _run(
        self,
        step: ConsumerStep,
        act: Callable[[ConsumerStep], AnswerT],
        before: Sequence[KeyValue] = (),
    ) -> tuple[AnswerT, Pending | None]:
        """The answer, and what has to be durable before it is sent."""
        group = step.group
        state = (group.epochs.group, len(group.members))
        pending: Pending | None = None
        classic: Group | None = None
        try:
            answer = act(step)
            changed = [*before, *entries(facts(group.group_id, step.changes))]
            if step.becomes_classic:
                classic = downgraded(group, self._catalog, step.now_ms)
                changed += [*entries(tombstones(group)), storage.group_record(classic)]
            if changed:
                pending = self._topic.append(changed)
        except RequestRefused:
            step.undo()
            raise
        except (HeadraceError, OSError) as failure:
            step.undo()
            logger.error("group %r not stored: %s", group.group_id, failure)
            raise RequestRefused(storage.append_error(failure), "The change can't be stored.") from failure
        self._run_timers(step)
        if (group.epochs.group, len(group.members)) != state:
            _log_epoch(group)
        if classic is not None:
            self.forget(group)
            self._become_classic(classic)
        if pending is not None and not step.waits_for_disk:
            self._topic.flush_soon(pending)
            pending = None
        return answer, pending

    def _run_timers(self, step: ConsumerStep) -> None:
        for timer in step.timers:
            key = ConsumerTimerKey(step.group.group_id, timer.kind, timer.member_id)
            if not isinstance(timer, Arm):
                self.timers.cancel(key)
            elif not timer.is_kept or key not in self.timers:
                self.timers.arm(key, timer.after_ms)

    def _timer_due(self, key: ConsumerTimerKey) -> None:
        group = self.groups.get(key.group_id)
        if group is None or key.member_id not in group.members:
            return
        step = self._step(group)
        try:
            is_out, _ = self._run(step, lambda step: timer_due(step, key.kind, key.member_id))
        except RequestRefused:
            self.timers.arm(key, step.session_timeout_ms)  # it can't be removed now: retry later
            return
        if is_out:
            logger.info(
                "member of group %s removed: its %s time-out has passed",
                key.group_id,
                key.kind.value,
                extra={"member": key.member_id},
            )


def _answer_join(
    future: asyncio.Future[JoinAnswer], answer: JoinAnswer, flushed: asyncio.Future[None]
) -> None:
    if not future.done():
        failed = flushed.cancelled() or flushed.exception() is not None
        future.set_result(JoinAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE) if failed else answer)


def _no_group(group_id: str) -> RequestRefused:
    return RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {group_id}.")


def _log_epoch(group: ConsumerGroup) -> None:
    logger.info(
        "group %r: epoch %d",
        group.group_id,
        group.epochs.group,
        extra={"members": len(group.members), "target_epoch": group.epochs.target},
    )
