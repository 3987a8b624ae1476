"""Performs the steps of the newer protocol: appends changes, runs time-outs, responds to requests.

A request changes its group when its method is called, or not at all: a change that can't be appended is undone. Only
responses to static members wait for the disk. If a power cut loses a change, the epochs show it: a member that is ahead
of the broker has to join again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from headrace.broker.configs.group_configs import CONSUMER_SESSION_TIMEOUT, GroupConfigs
from headrace.broker.groups import consumer, consumer_classic, storage
from headrace.broker.groups.consumer import ConsumerHeartbeat, ConsumerResult, timer_due
from headrace.broker.groups.consumer_migration import downgraded, upgrade
from headrace.broker.groups.consumer_state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    MemberState,
)
from headrace.broker.groups.consumer_step import ConsumerStep
from headrace.broker.groups.consumer_storage import entries, facts, tombstones
from headrace.broker.groups.events import ArmTimer, Request, Response, TimerKey, TimerKind, failed_join
from headrace.broker.groups.state import Group
from headrace.broker.partition import Pending
from headrace.broker.rejections import RequestRejected
from headrace.broker.runtime import Runtime
from headrace.broker.state_topic import KeyValue, StateTopic
from headrace.broker.timers import Timers
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

Done: TypeAlias = tuple[ResultT, Pending | None]
"""A result, and what has to be durable before the response is sent."""


class ConsumerMembers:
    def __init__(
        self,
        runtime: Runtime,
        groups: dict[str, ConsumerGroup],
        *,
        topics: Topics,
        state: StateTopic,
        configs: GroupConfigs,
        become_classic: Callable[[Group], None],
    ) -> None:
        self._groups = groups
        self._runtime = runtime
        self._topics = topics
        self._topic = state
        self._configs = configs
        self._become_classic = become_classic
        self.timers: Timers[TimerKey] = Timers(runtime.loop, runtime.clock, self._timer_due)

    def loaded(self, groups: dict[str, ConsumerGroup]) -> None:
        """Members from before the restart are alive until their sessions time out."""
        self._groups.update(groups)
        for group in groups.values():
            step = self._step(group)
            for member in group.members.values():
                step.arm(TimerKind.SESSION, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    step.arm(TimerKind.REBALANCE, member)
            self._run_timers(step)

    def close(self) -> None:
        self.timers.close()

    # Members of the newer protocol

    def heartbeat(
        self, group_id: str, heartbeat: ConsumerHeartbeat, classic: Group | None
    ) -> Done[ConsumerResult]:
        """`classic` is the classic group with this name, which the member upgrades to the newer protocol."""
        group = self._groups.get(group_id)
        if group is None and heartbeat.member_epoch == JOIN_EPOCH:
            return self._first_heartbeat(ConsumerGroup(group_id), heartbeat, classic)
        if group is None:
            raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {group_id}.")
        is_leaving = heartbeat.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)
        act = consumer.leave if is_leaving else consumer.heartbeat
        return self._run(self._step(group), partial(act, heartbeat=heartbeat))

    def _first_heartbeat(
        self, group: ConsumerGroup, heartbeat: ConsumerHeartbeat, classic: Group | None
    ) -> Done[ConsumerResult]:
        def join(step: ConsumerStep) -> ConsumerResult:
            if classic is not None and classic.members:
                upgrade(step, classic)
            return consumer.heartbeat(step, heartbeat)

        before = [] if classic is None else [storage.group_tombstone(group.group_id)]
        done = self._run(self._step(group), join, before)
        self._groups[group.group_id] = group
        return done

    # Members of the classic protocol

    def request(self, group: ConsumerGroup, request: Request) -> asyncio.Future[Any]:
        """The response: immediately, unless the new id of a member has to be durable. Raises RequestRejected."""
        response, pending = self._run(self._step(group), partial(consumer_classic.handle, request=request))
        future: asyncio.Future[Any] = self._runtime.loop.create_future()
        if pending is None:
            future.set_result(response)
        else:
            self._topic.durable(pending).add_done_callback(partial(_respond, future, response))
        return future

    # Offsets

    def check_commit(
        self,
        group: ConsumerGroup,
        partitions: Iterable[tuple[str, int]],
        *,
        member_id: str,
        epoch: int,
        has_epoch: bool,
    ) -> None:
        """Raise RequestRejected unless offsets may be committed. `has_epoch`: the version has a member epoch."""
        if epoch < 0 and not group.members:
            return  # a tool, or a consumer that assigns partitions to itself
        member = group.members.get(member_id)
        if member is not None and member.classic is None and not has_epoch:
            raise RequestRejected(ErrorCode.UNSUPPORTED_VERSION)
        covers = frozenset(
            (topic.id, partition)
            for name, partition in partitions
            if (topic := self._topics.get(name)) is not None
        )
        consumer.check_epoch_of(group, member_id, epoch, covers=covers)

    # Groups as a whole

    def remove(self, group: ConsumerGroup) -> None:
        """Remove a group from memory; its `tombstones` remove it from the log."""
        del self._groups[group.group_id]
        for member_id in group.members:
            for kind in TimerKind:
                self.timers.cancel(TimerKey(group.group_id, kind, member_id))

    # Performing

    def _step(self, group: ConsumerGroup) -> ConsumerStep:
        return ConsumerStep(
            group=group,
            catalog=self._topics,
            now_ms=self._runtime.clock.now_ms(),
            session_timeout_ms=self._configs.value(group.group_id, CONSUMER_SESSION_TIMEOUT),
            members_max=self._runtime.settings.group_members_max,
        )

    def _run(
        self,
        step: ConsumerStep,
        act: Callable[[ConsumerStep], ResultT],
        before: Sequence[KeyValue] = (),
    ) -> Done[ResultT]:
        group = step.group
        state = (group.epochs.group, len(group.members))
        pending: Pending | None = None
        classic: Group | None = None
        try:
            result = act(step)
            changed = [*before, *entries(facts(group.group_id, step.changes))]
            if step.becomes_classic:
                classic = downgraded(group, self._topics, step.now_ms)
                changed += [*entries(tombstones(group)), storage.group_record(classic)]
            if changed:
                pending = self._topic.append(changed)
        except RequestRejected:
            step.undo()
            raise
        except (HeadraceError, OSError) as failure:
            step.undo()
            logger.error("group %r not stored: %s", group.group_id, failure)
            raise RequestRejected(storage.append_error(failure), "The change can't be stored.") from failure
        self._run_timers(step)
        if (group.epochs.group, len(group.members)) != state:
            _log_epoch(group)
        if classic is not None:
            self.remove(group)
            self._become_classic(classic)
        if pending is not None and not step.waits_for_disk:
            self._topic.flush_soon(pending)
            pending = None
        return result, pending

    def _run_timers(self, step: ConsumerStep) -> None:
        for timer in step.timers:
            key = TimerKey(step.group.group_id, timer.kind, timer.member_id)
            if not isinstance(timer, ArmTimer):
                self.timers.cancel(key)
            elif not timer.is_kept or key not in self.timers:
                self.timers.arm(key, timer.after_ms)

    def _timer_due(self, key: TimerKey) -> None:
        group = self._groups.get(key.group_id)
        if group is None or key.member_id not in group.members:
            return
        step = self._step(group)
        try:
            is_out, _ = self._run(step, partial(timer_due, kind=key.kind, member_id=key.member_id))
        except RequestRejected:
            self.timers.arm(key, step.session_timeout_ms)  # it can't be removed now: retry later
            return
        if is_out:
            logger.info(
                "member of group %s removed: its %s time-out has passed",
                key.group_id,
                key.kind.value,
                extra={"member": key.member_id},
            )


def _respond(future: asyncio.Future[Any], response: Response, flushed: asyncio.Future[None]) -> None:
    if not future.done():
        failed = flushed.cancelled() or flushed.exception() is not None
        future.set_result(failed_join(ErrorCode.COORDINATOR_NOT_AVAILABLE) if failed else response)


def _log_epoch(group: ConsumerGroup) -> None:
    logger.info(
        "group %r: epoch %d",
        group.group_id,
        group.epochs.group,
        extra={"members": len(group.members), "target_epoch": group.epochs.target},
    )
