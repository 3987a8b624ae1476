"""A gateway in a process of its own, which a test kills and starts again at the same port."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.testing.ports import free_port


class GatewayProcess:
    """Entering the context starts it. `log` gets what it writes to its error output."""

    def __init__(self, bootstrap: str, *, log: Path | None = None, **settings: object) -> None:
        self._log = log
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "headrace", "gateway", "--bootstrap", bootstrap]
        self._command += ["--listen", f"127.0.0.1:{self.port}"]
        for name, value in {"schema_registry": "false", **settings}.items():
            self._command += ["--set", f"{name}={value}"]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with contextlib.ExitStack() as opened:
            errors = opened.enter_context(self._log.open("a")) if self._log is not None else None
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"headrace gateway ready at {self.url}\n"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(number)
        self._process.wait()
        self._process.stdout.close()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
