"""A broker in a process of its own that a test may kill, stop and start again on the same port and data."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.testing.ports import free_port

READY_PREFIX = "headrace broker ready at "
READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60


class BrokerProcess:
    """`headrace broker` with settings such as `durability="os"`; entering the context starts it."""

    def __init__(self, data_dir: Path, *, port: int | None = None, **settings: object) -> None:
        self.data_dir = data_dir
        self.port = free_port() if port is None else port
        self.log_file = data_dir.parent / f"{data_dir.name}.broker.log"
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def command(self) -> list[str]:
        command = [sys.executable, "-m", "headrace", "broker", "--data-dir", str(self.data_dir)]
        command += ["--listen", self.bootstrap]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def start(self) -> None:
        with self.log_file.open("a") as log:
            process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log, text=True)
        self._process = process
        assert process.stdout is not None
        # Reading a pipe cannot time out by itself; ending the process ends the reading.
        deadline = threading.Timer(READY_TIMEOUT_S, process.kill)
        deadline.start()
        try:
            line = process.stdout.readline()
        finally:
            deadline.cancel()
        assert line == f"{READY_PREFIX}{self.bootstrap}\n", f"it printed {line!r} and logged:\n{self.log}"

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the broker is not running"
        return self._process

    def kill(self) -> None:
        """kill -9: nothing is flushed, nothing is sent."""
        self.process.kill()
        self.process.wait()
        self._close()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(STOP_TIMEOUT_S)
        self._close()
        return code

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._process = None

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def peak_resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
