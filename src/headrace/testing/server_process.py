"""What the servers of the test kit have in common: a process with a folder of its own, from its start to its end.

A start returns when the server answers, and says what the server said last when it does not.
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
"""A start takes seconds at most on an idle machine; a busy one with two cores may need many times that."""

STOP_TIMEOUT_S = 60.0
"""A clean stop takes about a second; after this it is killed."""

LOOK_S = 0.02


class ServerProcess(abc.ABC):
    """One server, from entering the context until leaving it.

    After `stop` or `kill` it can be started again, and goes on with its data. A folder that was not given is temporary:
    it goes when the context is left.
    """

    name: ClassVar[str]
    """for people"""
    unavailable: ClassVar[type[HeadraceError]]
    """what is raised when it does not start"""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, folder: Path | None = None) -> None:
        self._is_folder_ours = folder is None
        # Not a test's own folder: the path of a unix socket has 107 bytes at most.
        self.folder = folder or Path(tempfile.mkdtemp(prefix="headrace-server-"))
        self._process: subprocess.Popen[Any] | None = None

    @abc.abstractmethod
    def _launch(self) -> subprocess.Popen[Any]:
        """Start the process, with its output at the end of `log_file`. The first time, prepare the folder before."""

    @abc.abstractmethod
    def _answers(self) -> bool:
        """Whether it serves now."""

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
        """As a power failure would."""
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
            if self._answers():
                return
            time.sleep(LOOK_S)
        ended = process.poll()
        what = (
            f"did not answer within {READY_TIMEOUT_S:.0f} s" if ended is None else f"ended with code {ended}"
        )
        raise self.unavailable(
            f"{self.name} {what}; it last said:\n{last_lines(self.log_file.read_text(errors='replace'))}",
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
