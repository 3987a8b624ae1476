"""What becomes of messages: attempts, pauses and dead letters, by a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from headrace.queue.message import MessageId
from headrace.testing.manual_clock import ManualClock
from headrace.webhooks.outgoing.attempts import AttemptLog, read_attempts
from headrace.webhooks.outgoing.delivery import Delivery
from headrace.webhooks.outgoing.health import Health
from headrace.webhooks.outgoing.message import Outgoing
from headrace.webhooks.outgoing.outcomes import Answer, error_of
from headrace.webhooks.outgoing.progress import Mark, Progress
from headrace.webhooks.outgoing.settings import OutgoingSettings
from tests.webhooks.outgoing.conftest import target_of

PLACE = ("orders", 0)
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class Target:
    """Answers with the status that is set for an offset, after the test lets it."""

    def __init__(self) -> None:
        self.statuses: dict[int, int | None] = {}
        self.default: int | None = 204
        self.retry_after_ms: int | None = None
        self.sent: list[int] = []
        self.held: dict[int, asyncio.Event] = {}

    async def send(self, message: Outgoing) -> Answer:
        offset = message.origin.offset
        self.sent.append(offset)
        if offset in self.held:
            await self.held[offset].wait()
        status = self.statuses.get(offset, self.default)
        error = "no answer" if status is None else error_of(status)
        return Answer(status=status, latency_ms=1.0, error=error, retry_after_ms=self.retry_after_ms)


class Letters:
    def __init__(self) -> None:
        self.written: list[tuple[int, str]] = []

    async def write(self, message: Outgoing, reason: str) -> None:
        self.written.append((message.origin.offset, reason))


class Setup:
    def __init__(self, folder: Path, *, settings: OutgoingSettings | None = None, **options: Any) -> None:
        self.clock = ManualClock()
        self.target = Target()
        self.letters = Letters()
        self.progress = Progress()
        self.progress.start(PLACE, 0, "")
        self.paused: list[str] = []
        self.folder = folder
        self.log = AttemptLog(folder, bytes_max=1_000_000)
        self.delivery = Delivery(
            target_of("orders", "http://127.0.0.1:8080/", **options),
            settings or OutgoingSettings(),
            sender=self.target,
            letters=self.letters,
            progress=self.progress,
            attempts=self.log,
            clock=self.clock,
            random=lambda: 0.5,
            health=Health(),
            on_pause=self.paused.append,
        )

    def add(self, *keys: bytes | None, problem: str = "") -> None:
        first = self.delivery.pending
        messages = []
        for offset, key in enumerate(keys, first):
            self.progress.read(PLACE, offset)
            messages.append(
                Outgoing(
                    message_id=f"msg_{offset}",
                    origin=MessageId("orders", 0, offset),
                    timestamp_ms=0,
                    key=key,
                    value=b"{}",
                    headers=(),
                    problem=problem,
                )
            )
        self.delivery.add(messages)

    async def settle(self) -> None:
        """Until nothing is in flight but what the test holds."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def after(self, ms: int) -> None:
        self.clock.advance_ms(ms)
        self.delivery.pump()
        await self.settle()

    @property
    def committed(self) -> int | None:
        mark = self.progress.changed().get(PLACE)
        return None if mark is None else mark.offset


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_delivered_messages_are_committed(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path)
        setup.add(None, None, None)
        await setup.settle()
        assert setup.committed == 3
        assert setup.delivery.counts.delivered == 3
        assert setup.delivery.pending == 0

    run(test)


def test_failed_message_is_sent_again_after_its_back_off_and_holds_back_no_commit_of_others(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        setup = Setup(tmp_path)
        setup.target.statuses[0] = 500
        setup.add(None, None, None)
        await setup.settle()
        assert setup.progress.changed() == {PLACE: Mark(offset=0, metadata="1:3:0")}
        await setup.after(4_999)
        assert setup.target.sent == [0, 1, 2]
        await setup.after(1)
        await setup.after(20_000)
        assert setup.target.sent == [0, 1, 2, 0, 0]
        setup.target.statuses[0] = 200
        await setup.after(80_000)
        assert setup.committed == 3
        setup.log.flush()
        numbers = [each.number for each in read_attempts(tmp_path, count=10) if each.offset == 0]
        assert numbers == [4, 3, 2, 1]

    run(test)


def test_retry_after_of_the_target_is_waited_for(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path)
        setup.target.statuses[0], setup.target.retry_after_ms = 429, MINUTE_MS
        setup.add(None)
        await setup.settle()
        await setup.after(MINUTE_MS - 1)
        assert setup.target.sent == [0]
        await setup.after(1)
        assert setup.target.sent == [0, 0]

    run(test)


def test_ordered_message_waits_for_the_one_before_it_and_others_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path, ordered_by_key=True)
        setup.target.statuses[0] = None
        setup.add(b"a", b"a", b"b", b"b", None)
        await setup.settle()
        assert setup.target.sent == [0, 2, 4, 3]
        setup.target.statuses[0] = 200
        await setup.after(5_000)
        assert setup.target.sent == [0, 2, 4, 3, 0, 1]

    run(test)


def test_dead_letter_lets_the_next_message_of_its_key_go(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path, ordered_by_key=True)
        setup.target.statuses[0] = 422
        setup.add(b"a", b"a")
        await setup.settle()
        for _ in range(5):
            await setup.after(HOUR_MS)
        assert setup.target.sent == [0] * 6 + [1]
        assert setup.letters.written == [(0, "HTTP 422, after 6 attempts")]
        assert setup.committed == 2

    run(test)


def test_message_that_fails_for_a_day_and_a_half_is_a_dead_letter(tmp_path: Path) -> None:
    """Its target works: other messages are delivered all the time."""

    async def test() -> None:
        setup = Setup(tmp_path)
        setup.target.statuses[0] = 500
        setup.add(None)
        await setup.settle()
        for _ in range(38):
            setup.delivery.health = setup.delivery.health.succeeded(setup.clock.now_ms())
            await setup.after(HOUR_MS)
        ((offset, reason),) = setup.letters.written
        assert offset == 0
        assert reason.startswith("HTTP 500, after ")
        assert setup.paused == []
        assert setup.committed == 1

    run(test)


def test_target_that_is_down_is_paused_after_a_day_and_no_message_is_a_dead_letter(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path)
        setup.target.default = None
        setup.add(*[None] * 50)
        await setup.settle()
        for _ in range(26):
            await setup.after(HOUR_MS)
        assert setup.paused
        assert "no success since the first failure" in setup.paused[0]
        assert setup.letters.written == []
        assert setup.progress.changed()[PLACE].offset == 0
        sent = len(setup.target.sent)
        await setup.after(HOUR_MS)
        assert len(setup.target.sent) == sent, "nothing is sent while it is paused"

    run(test)


def test_gone_target_is_paused_and_keeps_its_position(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path, parallel=1)
        setup.target.default = 410
        setup.add(None, None)
        await setup.settle()
        assert setup.paused == ["HTTP 410: the target wants no more requests"]
        assert setup.target.sent == [0]
        assert setup.progress.changed()[PLACE].offset == 0

    run(test)


def test_target_that_works_again_gets_what_waits_within_seconds(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path)
        setup.target.default = 503
        setup.add(*[None] * 10)
        await setup.settle()
        for _ in range(3):
            await setup.after(HOUR_MS)
        setup.target.default = 200
        setup.target.sent.clear()
        setup.add(None)
        await setup.settle()
        await setup.after(10_000)
        assert sorted(setup.target.sent) == [*range(11)]

    run(test)


def test_no_more_requests_than_allowed_are_in_flight(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path, parallel=3)
        for offset in range(10):
            setup.target.held[offset] = asyncio.Event()
        setup.add(*[None] * 10)
        await setup.settle()
        assert setup.target.sent == [0, 1, 2]
        assert setup.delivery.in_flight == 3
        setup.target.held[1].set()
        await setup.settle()
        assert setup.target.sent == [0, 1, 2, 3]
        for each in setup.target.held.values():
            each.set()
        await setup.settle()
        assert setup.delivery.counts.delivered == 10

    run(test)


def test_room_has_bounds_in_messages_and_in_bytes(tmp_path: Path) -> None:
    async def test() -> None:
        for settings in (OutgoingSettings(pending_max=5), OutgoingSettings(pending_bytes_max=2_000)):
            setup = Setup(tmp_path, settings=settings)
            setup.target.default = 500
            assert setup.delivery.has_room
            setup.add(*[None] * 5)
            await setup.settle()
            assert not setup.delivery.has_room
            setup.target.default = 200
            await setup.after(MINUTE_MS)
            assert setup.delivery.has_room

    run(test)


def test_message_with_a_problem_is_a_dead_letter_without_an_attempt(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path)
        setup.add(None, problem="the filter can't be evaluated")
        await setup.settle()
        assert setup.target.sent == []
        assert setup.letters.written == [(0, "the filter can't be evaluated")]
        assert setup.committed == 1

    run(test)


def test_messages_of_a_lost_partition_are_not_sent_again(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path)
        setup.target.default = 500
        setup.target.held[1] = asyncio.Event()
        setup.add(None, None)
        await setup.settle()
        setup.progress.forget([PLACE])
        setup.delivery.forget([PLACE])
        setup.target.held[1].set()
        await setup.after(HOUR_MS)
        assert setup.target.sent == [0, 1]
        assert setup.delivery.pending == 0
        assert setup.delivery.has_room

    run(test)


def test_drain_waits_for_what_is_in_flight_and_sends_nothing_more(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path, parallel=1)
        setup.target.held[0] = asyncio.Event()
        setup.add(None, None)
        await setup.settle()
        draining = asyncio.create_task(setup.delivery.drain(60))
        await setup.settle()
        assert not draining.done()
        setup.target.held[0].set()
        await draining
        assert setup.target.sent == [0]
        assert setup.committed == 1

    run(test)


def test_drain_ends_although_the_target_hangs(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path)
        setup.target.held[0] = asyncio.Event()
        setup.add(None)
        await setup.settle()
        await setup.delivery.drain(0.01)
        assert setup.delivery.in_flight == 0
        assert setup.progress.changed()[PLACE].offset == 0

    run(test)


def test_bug_stops_the_target_and_is_not_lost(tmp_path: Path) -> None:
    class Broken(Target):
        async def send(self, message: Outgoing) -> Answer:
            raise AssertionError("a bug")

    async def test() -> None:
        setup = Setup(tmp_path)
        setup.delivery._sender = Broken()
        setup.add(None)
        await setup.settle()
        assert isinstance(setup.delivery.failure, AssertionError)
        assert not setup.delivery.has_room

    run(test)


def test_messages_of_many_keys_with_failures_arrive_in_order(tmp_path: Path) -> None:
    async def test() -> None:
        setup = Setup(tmp_path, ordered_by_key=True, parallel=4)
        keys = [b"%d" % (number % 7) for number in range(100)]
        for offset in range(0, 100, 3):
            setup.target.statuses[offset] = 503
        setup.add(*keys)
        await setup.settle()
        setup.target.statuses.clear()
        for _ in range(60):
            await setup.after(MINUTE_MS)
        last: dict[bytes, list[int]] = defaultdict(list)
        for offset in dict.fromkeys(reversed(setup.target.sent)):
            last[keys[offset]].insert(0, offset)
        assert setup.committed == 100
        assert all(offsets == sorted(offsets) for offsets in last.values())

    run(test)
