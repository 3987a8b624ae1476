"""Workers of a queue in threads: each takes a message and handles it, until the queue is stopped.

The handler acknowledges the message (`Queue.run` by its outcome, `headrace work` by an exit code). What ends the run is
here: a count, idleness, a failure, a signal.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.queue.message import Delivery, Message

logger = logging.getLogger("headrace.queue")

LOOK_S = 0.1
"""How often a run is checked for idleness, and its progress shown."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Allowance:
    """How many messages a run may still take, and since when it is idle."""

    def __init__(self, *, count: int | None, idle_s: float | None) -> None:
        self._lock = threading.Lock()
        self._left = count
        self._idle_s = idle_s
        self._idle_since_s = time.monotonic()
        self.running = 0
        """Handlers that run now."""

    def may_take(self) -> bool:
        with self._lock:
            if self._left == 0:
                return False
            if self._left is not None:
                self._left -= 1
            return True

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with self._lock:
            self.running += 1
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1
                self._idle_since_s = time.monotonic()

    def is_idle(self) -> bool:
        """Whether no message was delivered for `idle_s`."""
        if self._idle_s is None or self.running:
            return False
        return time.monotonic() > self._idle_since_s + self._idle_s


class Runner:
    def __init__(
        self,
        handle: Callable[[Message], None],
        *,
        take: Callable[[], Message | None],
        stop: Callable[[], None],
        concurrency: int,
        allowance: Allowance,
    ) -> None:
        self._handle = handle
        self._take = take
        self._stop = stop
        self._allowance = allowance
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True)
            for number in range(concurrency)
        ]

    def run(self, on_look: Callable[[], None] = lambda: None) -> None:
        """Run until all workers have ended. The error of one worker stops the others and is raised here."""
        for thread in self._threads:
            thread.start()
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            alive[0].join(LOOK_S)
            on_look()
            if self._allowance.is_idle():
                self._stop()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while self._allowance.may_take():
                message = self._take()
                if message is None:
                    break
                with self._allowance.at_work():
                    self._handle(message)
        except BaseException as error:
            # The first one is the cause; errors of the others are its consequences.
            self._failure = self._failure or error
            self._stop()


def raise_or_log(message: Delivery, failure: BaseException | None) -> None:
    """After the acknowledgement: an error concerns one message; an exit, an interrupt or a cancellation ends the whole
    run."""
    if isinstance(failure, Exception):
        logger.warning("the handler of %s failed", message, exc_info=failure)
    elif failure is not None:
        raise failure


@contextmanager
def stopped_by_signals(steps: Iterable[Callable[[], None]]) -> Iterator[None]:
    """The first SIGINT or SIGTERM calls the first step, and so on. After the last step they do what they did before.

    Python calls signal handlers in the main thread only: in any other this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    steps_left = iter(steps)

    def on_signal(number: int, _frame: object) -> None:
        step = next(steps_left, None)
        if step is not None:
            step()
        else:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    before: dict[signal.Signals, Any] = {
        # None: a program that embeds Python has a handler of its own, which can't be restored from here.
        each: signal.signal(each, on_signal) or signal.SIG_DFL
        for each in SIGNALS
    }
    try:
        yield
    finally:
        restore()
