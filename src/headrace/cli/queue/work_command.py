"""A command for each message: its input, its environment, its time limit and its exit code."""

from __future__ import annotations

import contextlib
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
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from headrace.cli.output import note
from headrace.errors import HeadraceError
from headrace.queue.errors import AlreadyAcknowledged, MessageNotStored

if TYPE_CHECKING:
    from headrace.queue import Message

EXIT_RELEASE = 75
"""EX_TEMPFAIL of sysexits.h: try again later."""

STDERR_TAIL_BYTES = 8_192
"""The end of standard error that is kept for the reason; all of it is passed on."""

ENVIRONMENT_VALUE_BYTES_MAX = 65_536
"""Linux starts no command with a variable of 128 KiB; a larger key or header is skipped."""

OUTCOMES = ("accepted", "released", "rejected", "gone")

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL."""


class Commands:
    """Runs a command for a message and acknowledges the message by its exit code; for any number of threads."""

    def __init__(self, command: Sequence[str], *, group: str, time_limit_s: float) -> None:
        self._command = command
        self._group = group
        self._time_limit_s = time_limit_s
        self._counts: Counter[str] = Counter()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._is_ending = False
        self._started_at_s = time.monotonic()

    def end(self) -> None:
        """End running commands, and those that start later."""
        self._is_ending = True
        for process in [*self._running.values()]:
            _kill(process, signal.SIGTERM)

    def handle(self, message: Message) -> None:
        with tempfile.TemporaryFile() as reply:
            code, tail, is_over_time = self._run(message, reply if message.is_request else None)
            self._acknowledge(message, code, tail, is_over_time, reply)

    def _acknowledge(
        self, message: Message, code: int, tail: bytes, is_over_time: bool, reply: IO[bytes]
    ) -> None:
        outcome, reason = "released", _last_line(tail)
        if is_over_time:
            reason = f"took longer than {self._time_limit_s:g} s"
            note(
                f"headrace: {message.id}: the command {reason} (--time-limit) and was ended; "
                f"the message is released after delivery {message.delivery_count}"
            )
            self._count("over the time limit")
        elif code == 0:
            outcome = "accepted"
        elif code < 0:
            # Killed: by us, by a person, for lack of memory. The delivery limit stops a poison message.
            reason = f"ended by signal {-code}"
        elif code != EXIT_RELEASE:
            outcome, reason = "rejected", reason or f"exit code {code}"
        try:
            if outcome == "accepted" and message.is_request:
                reply.seek(0)
                try:
                    message.reply(reply.read())
                except MessageNotStored as error:  # it is too large, or the broker is unavailable
                    message.reject(error.message)
                    outcome = "rejected"
            elif outcome == "accepted":
                message.accept()
            elif outcome == "released":
                message.release(reason)
            else:
                message.reject(reason)
        except AlreadyAcknowledged:
            outcome = "gone"
        self._count(outcome)

    def _count(self, outcome: str) -> None:
        with self._lock:
            self._counts[outcome] += 1

    def _run(self, message: Message, stdout: IO[bytes] | None) -> tuple[int, bytes, bool]:
        """Exit code, end of standard error, and whether it took too long."""
        with tempfile.TemporaryFile() as stdin:
            stdin.write(message.value)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=subprocess.PIPE,
                    env={**os.environ, **environment(message, self._group)},
                    # Ctrl-C at the terminal is for the pool, which waits for the command.
                    start_new_session=True,
                )
            except OSError as error:
                # Ends the pool: to continue would reject all messages.
                raise HeadraceError(
                    f"{self._command[0]} can't be run: {error.strerror or error}",
                    hint="the message was released; does the script start with #! and its interpreter?",
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
        """Pass standard error on until the command ends; processes that it left in the background are not waited
        for."""
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
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(0.05)
                if time.monotonic() > deadline_s:
                    _kill(process, signal.SIGKILL if is_over_time else signal.SIGTERM)
                    is_over_time, deadline_s = True, time.monotonic() + GRACE_S

    # Progress

    def progress(self) -> str:
        return f"{len(self._running)} running, {self._totals()}"

    def summary(self) -> str:
        elapsed_s = time.monotonic() - self._started_at_s
        count = sum(self._counts[name] for name in OUTCOMES)
        return f"{count} messages in {elapsed_s:.1f} s: {self._totals()}"

    def _totals(self) -> str:
        shown = [name for name in OUTCOMES if name != "gone" or name in self._counts]
        totals = {name: f"{self._counts[name]} {name}" for name in shown}
        if over := self._counts["over the time limit"]:
            totals["released"] += f" ({over} over the time limit)"
        return ", ".join(totals.values())


def environment(message: Message, group: str) -> dict[str, str]:
    """The message except its value, as environment variables of the command."""
    variables = {
        "HEADRACE_TOPIC": message.topic.encode(),
        "HEADRACE_PARTITION": b"%d" % message.partition,
        "HEADRACE_OFFSET": b"%d" % message.offset,
        "HEADRACE_TIMESTAMP_MS": b"%d" % message.timestamp_ms,
        "HEADRACE_DELIVERY_COUNT": b"%d" % message.delivery_count,
        "HEADRACE_GROUP": group.encode(),
        "HEADRACE_KEY": message.key,
    }
    for name, content in message.headers:
        variables["HEADRACE_HEADER_" + re.sub(r"[^A-Z0-9]", "_", name.upper())] = content
    return {
        name: os.fsdecode(content)
        for name, content in variables.items()
        # A variable cannot hold a zero byte.
        if content is not None and len(content) <= ENVIRONMENT_VALUE_BYTES_MAX and b"\0" not in content
    }


def _last_line(tail: bytes) -> str:
    lines = [line for line in tail.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _read(descriptor: int) -> bytes | None:
    """Empty at the end; None if nothing is available yet."""
    try:
        return os.read(descriptor, 65_536)
    except BlockingIOError:
        return None


def _kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """The command and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
