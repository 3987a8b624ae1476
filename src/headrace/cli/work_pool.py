"""Threads that each take a message, run a command for it, and settle it by the exit code."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.queue.errors import MessageSettled

if TYPE_CHECKING:
    from headrace.queue import Message, Queue

EXIT_RELEASE = 75
"""EX_TEMPFAIL of sysexits.h: try again later."""

STDERR_TAIL_BYTES = 8_192
"""As much of standard error as is kept for the reason; all of it is passed on."""

ENVIRONMENT_VALUE_BYTES_MAX = 65_536
"""Linux refuses to start a command with a variable of 128 KiB; a key or header beyond this is left out."""

GRACE_S = 2.0
"""Between asking a command to end and ending it."""


class CommandNotRunnable(HeadraceError):
    """The command itself is the problem, not a message: to go on would reject all of them."""


class WorkPool:
    def __init__(
        self,
        queue: Queue,
        command: Sequence[str],
        *,
        concurrency: int,
        time_limit_s: float,
        count_max: int | None = None,
        idle_s_max: float | None = None,
    ) -> None:
        self._queue = queue
        self._command = command
        self._time_limit_s = time_limit_s
        self._left = count_max
        self._idle_s_max = idle_s_max
        self._counts: Counter[str] = Counter()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._is_ending = False
        self._busy_at_s = time.monotonic()
        self._threads = [
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True)
            for number in range(concurrency)
        ]
        self.failure: HeadraceError | None = None
        self.elapsed_s = 0.0
        self.on_look: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._busy_at_s = time.monotonic()
        for thread in self._threads:
            thread.start()

    def join(self, look_s: float) -> None:
        """Until all workers are done."""
        while any(thread.is_alive() for thread in self._threads):
            for thread in self._threads:
                if thread.is_alive():
                    thread.join(look_s)
                    break
            self.on_look()
            if self._is_idle():
                self.stop()

    def stop(self) -> None:
        """No more messages; running commands finish."""
        self._queue.stop()

    def end_commands(self) -> None:
        self._is_ending = True
        for process in [*self._running.values()]:
            _kill(process, signal.SIGTERM)

    def _is_idle(self) -> bool:
        is_busy = bool(self._running)
        if is_busy:
            self._busy_at_s = time.monotonic()
        return self._idle_s_max is not None and time.monotonic() > self._busy_at_s + self._idle_s_max

    # A worker

    def _work(self) -> None:
        try:
            while self._may_take():
                message = self._queue.get()
                if message is None:
                    break
                self._busy_at_s = time.monotonic()
                self._handle(message)
        except HeadraceError as error:
            self.failure = error
            self.stop()

    def _may_take(self) -> bool:
        with self._lock:
            if self._left == 0:
                return False
            if self._left is not None:
                self._left -= 1
            return True

    def _handle(self, message: Message) -> None:
        code, tail, is_over_time = self._run(message)
        if is_over_time:
            self._settle("released", lambda: message.release(f"took longer than {self._time_limit_s:g} s"))
        elif code == 0:
            self._settle("accepted", message.accept)
        elif code == EXIT_RELEASE:
            self._settle("released", lambda: message.release(_last_line(tail)))
        elif code < 0:
            # Ended from outside: by us, by a person, for lack of memory. The delivery limit stops a poison message.
            self._settle("released", lambda: message.release(f"ended by signal {-code}"))
        else:
            reason = _last_line(tail) or f"exit code {code}"
            self._settle("rejected", lambda: message.reject(reason))

    def _settle(self, how: str, settle: Callable[[], None]) -> None:
        try:
            settle()
        except MessageSettled:
            how = "gone"
        with self._lock:
            self._counts[how] += 1

    def _run(self, message: Message) -> tuple[int, bytes, bool]:
        """Exit code, end of standard error, and whether it took too long."""
        with tempfile.TemporaryFile() as stdin:
            stdin.write(message.value)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=stdin,
                    stderr=subprocess.PIPE,
                    env={**os.environ, **environment(message, self._queue.group)},
                    # Ctrl-C at the terminal is for the pool, which lets it finish.
                    start_new_session=True,
                )
            except OSError as error:
                raise CommandNotRunnable(
                    f"{self._command[0]} can't be run: {error.strerror or error}",
                    hint="the message went back to the queue; does the script begin with #! and its interpreter?",
                ) from error
        with process:
            self._running[process.pid] = process
            try:
                if self._is_ending:
                    _kill(process, signal.SIGTERM)
                tail, is_over_time = self._watch(process)
            finally:
                del self._running[process.pid]
        return process.returncode, tail, is_over_time

    def _watch(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bool]:
        """Pass standard error on until the command is over; what it left in the background is not waited for."""
        assert process.stderr is not None
        tail = b""
        deadline_s = time.monotonic() + self._time_limit_s
        is_over_time = False
        os.set_blocking(process.stderr.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stderr, selectors.EVENT_READ)
            is_open = True
            while True:
                is_over = process.poll() is not None
                if is_open and (selector.select(0 if is_over else 0.05) or is_over):
                    data = _read(process.stderr.fileno())
                    is_open = data != b""
                    if data:
                        sys.stderr.buffer.write(data)
                        sys.stderr.flush()
                        tail = (tail + data)[-STDERR_TAIL_BYTES:]
                        continue
                if is_over:
                    return tail, is_over_time
                if not is_open:
                    _wait(process, 0.05)
                if time.monotonic() > deadline_s:
                    _kill(process, signal.SIGKILL if is_over_time else signal.SIGTERM)
                    is_over_time, deadline_s = True, time.monotonic() + GRACE_S

    # What it says

    def progress(self) -> str:
        return f"{len(self._running)} running, {self._told()}"

    def summary(self) -> str:
        return f"{sum(self._counts.values())} messages in {self.elapsed_s:.1f} s: {self._told()}"

    def _told(self) -> str:
        names = ["accepted", "released", "rejected"] + ["gone"] * ("gone" in self._counts)
        return ", ".join(f"{self._counts[name]} {name}" for name in names)


def environment(message: Message, group: str) -> dict[str, str]:
    """What a command is told of its message beside the value."""
    told = {
        "HEADRACE_TOPIC": message.topic.encode(),
        "HEADRACE_PARTITION": b"%d" % message.partition,
        "HEADRACE_OFFSET": b"%d" % message.offset,
        "HEADRACE_TIMESTAMP_MS": b"%d" % message.timestamp_ms,
        "HEADRACE_DELIVERY_COUNT": b"%d" % message.delivery_count,
        "HEADRACE_GROUP": group.encode(),
        "HEADRACE_KEY": message.key,
    }
    for name, content in message.headers:
        told["HEADRACE_HEADER_" + re.sub(r"[^A-Z0-9]", "_", name.upper())] = content
    return {
        name: os.fsdecode(content)
        for name, content in told.items()
        # A variable cannot hold a zero byte.
        if content is not None and len(content) <= ENVIRONMENT_VALUE_BYTES_MAX and b"\0" not in content
    }


def _last_line(tail: bytes) -> str:
    lines = [line for line in tail.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _read(descriptor: int) -> bytes | None:
    """Nothing at the end; None if there is just nothing now."""
    try:
        return os.read(descriptor, 65_536)
    except BlockingIOError:
        return None


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return


def _kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """The command and what it started."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
