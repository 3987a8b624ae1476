"""The common part of the servers of the test kit: a process with its own folder.

A start returns when the server responds. If it does not respond, the error has the end of its log.
"""

from __future__ import annotations

import abc
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from headrace.errors import HeadraceError
from headrace.java import last_lines

READY_TIMEOUT_S = 120.0
"""A start takes a few seconds on an idle machine; a busy one with two cores may need many times that."""

STOP_TIMEOUT_S = 60.0
"""A clean stop takes about a second; after this time the server is killed."""

LOOK_S = 0.02


class ServerUnavailable(HeadraceError):
    """The server is not installed, ended or did not respond."""


class ServerProcess(abc.ABC):
    """One server, from entering the context until leaving it.

    After `stop` or `kill`, `start` starts it again with its data. Without `folder`, the folder is temporary: leaving
    the context deletes it.
    """

    name: ClassVar[str]
    """for people"""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, folder: Path | None = None) -> None:
        self._is_folder_ours = folder is None
        # Not in the folder of the test: the path of a Unix socket has at most 107 bytes.
        self.folder = folder or Path(tempfile.mkdtemp(prefix="headrace-server-"))
        self._process: subprocess.Popen[Any] | None = None

    @abc.abstractmethod
    def _launch(self) -> subprocess.Popen[Any]:
        """Start the process, and append its output to `log_file`. The first start prepares the folder."""

    @abc.abstractmethod
    def _is_ready(self) -> bool:
        """Whether the server responds."""

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    def start(self) -> Self:
        assert self._process is None, f"{self.name} is running already"
        self._process = self._launch()
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        return self

    def stop(self) -> None:
        """Cleanly."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End the server without warning."""
        self._end(self.kill_signal)

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._is_folder_ours:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_until_ready(self, process: subprocess.Popen[Any]) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline_s:
            if self._is_ready():
                return
            time.sleep(LOOK_S)
        ended = process.poll()
        what = (
            f"did not respond within {READY_TIMEOUT_S:.0f} s" if ended is None else f"ended with code {ended}"
        )
        raise ServerUnavailable(
            f"{self.name} {what}; its last output:\n{last_lines(self.log_file.read_text(errors='replace'))}",
            hint=f"the whole log is in {self.log_file}",
        )

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
