"""A broker in a process of its own, from entering the context until leaving it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from headrace.errors import HeadraceError

READY_PREFIX = "headrace broker ready at "
# A start takes a fraction of a second; after a crash the batches after the last checkpoint are read again.
READY_TIMEOUT_S = 60
# A clean stop takes less than a second; after this it is killed, and the next start recovers.
STOP_TIMEOUT_S = 10
LOG_LINES_SHOWN = 15


class BrokerFailed(HeadraceError):
    """The broker did not start, or ended while it was needed."""


class BrokerProcess:
    """`headrace broker` as a child process.

    It gets a session of its own, so that Ctrl-C at the terminal reaches the parent alone, which can then stop
    its clients before the broker.
    """

    def __init__(self, *, data_dir: Path, listen: str, options: Sequence[str] = ()) -> None:
        self.bootstrap = ""
        self._command = [sys.executable, "-m", "headrace", "broker"]
        self._command += ["--data-dir", str(data_dir), "--listen", listen, *options]
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] = tempfile.TemporaryFile("w+", prefix="headrace-broker-", suffix=".log")  # noqa: SIM115

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def check(self) -> None:
        """Raise if the broker has ended."""
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            raise BrokerFailed(
                f"the broker ended with code {code}; its last log lines:\n{self._last_lines()}"
            )

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        # Reading a pipe has no timeout; ending the process ends the reading.
        deadline = threading.Timer(READY_TIMEOUT_S, process.kill)
        deadline.start()
        try:
            for line in process.stdout:
                if line.startswith(READY_PREFIX):
                    self.bootstrap = line.removeprefix(READY_PREFIX).strip()
                    return
        finally:
            deadline.cancel()
        process.wait()
        raise BrokerFailed(
            f"the broker did not start; its last log lines:\n{self._last_lines()}",
            hint="another broker may use the data folder or the port: try --data-dir or --listen",
        )

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
        self._log.close()

    def _last_lines(self) -> str:
        self._log.seek(0)
        return "\n".join(f"  {line}" for line in self._log.read().splitlines()[-LOG_LINES_SHOWN:])
