"""`Queue.run`: the outcome of its handler acknowledges a message, and a signal lets running handlers finish."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from headrace.queue import Message, QueueUnusable
from headrace.queue.dead_letters import DeadLetters
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take, values


def letters_of(bootstrap: str, group: str, count: int) -> dict[bytes | None, str]:
    letters = DeadLetters(group, bootstrap=bootstrap)
    deadline_s = time.monotonic() + TIMEOUT_S
    while letters.count() < count:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return {letter.value: letter.reason for letter in letters.read()}


def test_return_accepts_error_releases_and_chosen_errors_reject(
    open_queue: OpenQueue, bootstrap: str, topic: str, group: str, send: Send
) -> None:
    send(topic, "good", "busy", "bad")
    seen: list[tuple[str, int]] = []

    def handle(message: Message) -> None:
        seen.append((message.value.decode(), message.delivery_count))
        if message.value == b"bad":
            raise ValueError("no such mailbox")
        if message.value == b"busy" and message.delivery_count == 1:
            raise ConnectionError("server is busy")

    open_queue(topic, group=group).run(handle, reject_on=ValueError, count=4)
    assert sorted(seen) == [("bad", 1), ("busy", 1), ("busy", 2), ("good", 1)]
    assert letters_of(bootstrap, group, 1) == {b"bad": "ValueError: no such mailbox"}
    with open_queue(topic, group=group) as queue:
        assert queue.get(timeout=0.5) is None


def test_message_that_fails_every_time_becomes_a_letter_with_its_last_error(
    open_queue: OpenQueue,
    set_group: Callable[..., None],
    bootstrap: str,
    topic: str,
    group: str,
    send: Send,
) -> None:
    set_group(group, share_delivery_count_limit=2)
    send(topic, "poison")

    def handle(message: Message) -> None:
        raise ZeroDivisionError(f"try {message.delivery_count}")

    open_queue(topic, group=group).run(handle, count=2)
    assert letters_of(bootstrap, group, 1) == {b"poison": "ZeroDivisionError: try 2"}


def test_handler_may_acknowledge_its_message_itself(
    open_queue: OpenQueue, bootstrap: str, topic: str, group: str, send: Send
) -> None:
    send(topic, "later", "never")

    def handle(message: Message) -> None:
        if message.value == b"never":
            message.reject("by hand")
            raise RuntimeError("too late to change anything")
        if message.delivery_count == 1:
            message.release()

    open_queue(topic, group=group).run(handle, count=3)
    assert letters_of(bootstrap, group, 1) == {b"never": "by hand"}
    with open_queue(topic, group=group) as queue:
        assert queue.get(timeout=0.5) is None


def test_handlers_run_concurrently(open_queue: OpenQueue, topic: str, group: str, send: Send) -> None:
    send(topic, *"abcd")
    together = threading.Barrier(4, timeout=TIMEOUT_S)
    open_queue(topic, group=group, prefetch=1).run(lambda _: together.wait(), concurrency=4, count=4)
    assert not together.broken


def test_run_ends_when_it_is_idle(open_queue: OpenQueue, topic: str, group: str, send: Send) -> None:
    send(topic, "one", "two")
    seen: list[bytes] = []
    open_queue(topic, group=group).run(
        lambda message: seen.append(message.value), concurrency=2, stop_when_idle_s=1.5
    )
    assert sorted(seen) == [b"one", b"two"]


def test_run_in_another_thread_ends_by_stop(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one")
    seen = threading.Event()
    with open_queue(topic, group=group) as queue:
        worker = threading.Thread(target=queue.run, args=(lambda _: seen.set(),))
        worker.start()
        assert seen.wait(TIMEOUT_S)
        queue.stop()
        worker.join(TIMEOUT_S)
        assert not worker.is_alive()


def test_exit_in_a_handler_ends_the_run_and_releases_its_message(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one")
    with pytest.raises(SystemExit):
        open_queue(topic, group=group).run(lambda _: sys.exit("enough"), concurrency=2)
    with open_queue(topic, group=group) as queue:
        (message,) = take(queue, 1)
        assert (message.value, message.delivery_count) == (b"one", 2)


def test_signal_handlers_are_restored(open_queue: OpenQueue, topic: str, group: str) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    open_queue(topic, group=group).run(lambda _: None, stop_when_idle_s=0)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_concurrency_below_one_is_rejected(open_queue: OpenQueue, topic: str, group: str) -> None:
    with pytest.raises(QueueUnusable, match="concurrency"):
        open_queue(topic, group=group).run(lambda _: None, concurrency=0)


SYNC = """
import sys, time
from headrace.queue import Queue

bootstrap, topic, group = sys.argv[1:]

def handle(message):
    print("started", flush=True)
    while message.value == b"slow" and not sys.stdin.readline():
        time.sleep(0.01)
    print("finished", flush=True)

Queue(topic, group=group, bootstrap=bootstrap, prefetch=1).run(handle, concurrency=2)
print("returned", flush=True)
"""

ASYNC = """
import asyncio, sys
from headrace.queue import AsyncQueue

bootstrap, topic, group = sys.argv[1:]

async def handle(message):
    print("started", flush=True)
    if message.value == b"slow":
        await asyncio.to_thread(sys.stdin.readline)
    print("finished", flush=True)

asyncio.run(AsyncQueue(topic, group=group, bootstrap=bootstrap, prefetch=1).run(handle, concurrency=2))
print("returned", flush=True)
"""


@pytest.mark.parametrize("program", [SYNC, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_lets_the_running_handler_finish_accepts_its_message_and_takes_no_other(
    program: str,
    number: signal.Signals,
    open_queue: OpenQueue,
    bootstrap: str,
    topic: str,
    group: str,
    send: Send,
) -> None:
    send(topic, "slow")
    with subprocess.Popen(
        [sys.executable, "-c", program, bootstrap, topic, group],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "started\n"
        os.kill(worker.pid, number)
        time.sleep(0.5)  # the other worker's poll is over by then, and it takes nothing more
        send(topic, "next")
        out, _ = worker.communicate("continue\n", timeout=TIMEOUT_S)
    assert (out, worker.returncode) == ("finished\nreturned\n", 0)
    with open_queue(topic, group=group) as queue:
        assert values(take(queue, 1)) == ["next"]


@pytest.mark.parametrize("program", [SYNC, ASYNC], ids=["sync", "async"])
def test_second_ctrl_c_interrupts_and_releases_the_message(
    program: str, open_queue: OpenQueue, bootstrap: str, topic: str, group: str, send: Send
) -> None:
    send(topic, "slow")
    with subprocess.Popen(
        [sys.executable, "-c", program, bootstrap, topic, group],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "started\n"
        os.kill(worker.pid, signal.SIGINT)
        time.sleep(0.3)
        os.kill(worker.pid, signal.SIGINT)
        with open_queue(topic, group=group) as queue:
            assert values(take(queue, 1)) == ["slow"]
        out, err = worker.communicate("continue\n", timeout=TIMEOUT_S)
    assert "KeyboardInterrupt" in err
    assert "returned" not in out
