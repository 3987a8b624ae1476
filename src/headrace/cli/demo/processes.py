"""The processes of `headrace run`: a broker, a capture, a Redis, and a job on Spark.

Each runs from entering its context until leaving it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Self

from headrace.cli.demo import clicks_by_url
from headrace.cli.demo.shop import CAPTURE
from headrace.cli.demo.shop_views import redis_socket
from headrace.errors import HeadraceError

READY_PREFIX = "headrace broker ready at "
# A start takes a fraction of a second; after a crash the batches after the last checkpoint are read again.
READY_TIMEOUT_S = 60
# A clean stop of the broker takes less than a second, a batch of the job one second. After this time a process is
# killed; the next start recovers, or replays the batch.
STOP_TIMEOUT_S = 20
SOCKET_PATH_LENGTH_MAX = 100
"""The address of a unix socket has 108 bytes in Linux, and 104 in macOS."""


class ChildProcess:
    """A `headrace` command, or another program, whose output is read line by line.

    It gets a session of its own, so that Ctrl-C at the terminal reaches the parent alone, which stops the clients
    before the broker.
    """

    def __init__(self, *arguments: str, program: tuple[str, ...] = ()) -> None:
        self._command = [*(program or (sys.executable, "-m", "headrace")), *arguments]
        self._log: IO[str] = tempfile.TemporaryFile("w+", prefix="headrace-", suffix=".log")  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        self._reader.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                # With its child processes: the JVM too.
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._reader.join(STOP_TIMEOUT_S)
        self._log.close()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.on_line(line)

    def on_line(self, line: str) -> None:
        """Called with each line of its output."""

    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    def last_lines(self, count: int) -> list[str]:
        """The end of its log."""
        self._log.seek(0)
        return self._log.read().splitlines()[-count:]


class BrokerProcess(ChildProcess):
    """`headrace broker`; entering waits until it is ready."""

    def __init__(self, *, data_dir: Path, listen: str) -> None:
        super().__init__("broker", "--data-dir", str(data_dir), "--listen", listen)
        self.bootstrap = ""
        self._is_ready_or_over = threading.Event()

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._is_ready_or_over.wait(READY_TIMEOUT_S)
            if not self.bootstrap:
                raise HeadraceError(
                    f"the broker did not start; its last log lines:\n{self._log_tail()}",
                    hint="another broker may use the data folder or the port: try --data-dir or --listen",
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def on_line(self, line: str) -> None:
        if line.startswith(READY_PREFIX):
            self.bootstrap = line.removeprefix(READY_PREFIX).strip()
            self._is_ready_or_over.set()

    def _read(self) -> None:
        super()._read()
        self._is_ready_or_over.set()

    def check(self) -> None:
        """Raise if the broker has ended."""
        code = self.exit_code()
        if code is not None:
            raise HeadraceError(f"the broker ended with code {code}; its last log lines:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return "\n".join(f"  {line}" for line in self.last_lines(15))


class CaptureProcess(ChildProcess):
    """`headrace cdc run` of the shop."""

    def __init__(self, *, bootstrap: str, data_dir: Path) -> None:
        super().__init__("cdc", "run", CAPTURE, "--bootstrap", bootstrap, "--data-dir", str(data_dir))

    def check(self) -> None:
        """Raise if the capture has ended."""
        if self.exit_code() is not None:
            raise HeadraceError("the capture of the shop ended:\n" + "\n".join(self.last_lines(5)))


class RedisProcess(ChildProcess):
    """A Redis for the cache, on a socket in the data folder; without redis-server there is no process."""

    def __init__(self, *, data_dir: Path) -> None:
        self._socket = redis_socket(data_dir)
        options = {"port": "0", "unixsocket": self._socket, "dir": self._socket.parent, "appendonly": "yes"}
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        program = shutil.which("redis-server")
        self._is_possible = program is not None and len(str(self._socket)) <= SOCKET_PATH_LENGTH_MAX
        super().__init__(*words, "--save", "", program=(program or "",))

    def __enter__(self) -> Self:
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        return super().__enter__() if self._is_possible else self


class JobProcess(ChildProcess):
    """`headrace job run` with the script of `clicks_by_url`.

    If Spark cannot run, there is no process, and `missing` names what to install.
    """

    def __init__(self, *, bootstrap: str, data_dir: Path) -> None:
        script = str(Path(clicks_by_url.__file__))
        super().__init__("job", "run", script, "--bootstrap", bootstrap, "--data-dir", str(data_dir))
        self.missing = _missing_for_spark()
        self.milestones: list[tuple[int, str]] = []

    def __enter__(self) -> Self:
        return self if self.missing else super().__enter__()

    def failure(self) -> str:
        """Why it ended, if it ended; the other panels continue without it."""
        if self.exit_code() is None:
            return ""
        return "\n".join(self.last_lines(5)) or "it ended without a message"

    def on_line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == clicks_by_url.MILESTONE:
            at_ms, _, name = rest.strip().partition(" ")
            self.milestones.append((int(at_ms), name))


def _missing_for_spark() -> str:
    if importlib.util.find_spec("pyspark") is None:
        return "the job needs Spark: pip install 'headrace[spark]'"
    from headrace.java import java_command

    try:
        java_command()
    except HeadraceError as error:
        return f"the job needs Java: {error.hint}"
    return ""
