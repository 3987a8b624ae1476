"""A real Redis for tests: Debian's redis-server, on a unix socket in a folder of its own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.errors import HeadraceError

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


class RedisUnavailable(HeadraceError):
    """There is no redis-server here, or it did not start."""


def redis_command() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise RedisUnavailable(
            "redis-server is not installed", hint="apt install redis-server, or brew install redis"
        )
    return found


class RedisServer:
    """One Redis, from entering the context until leaving it.

        with RedisServer() as server:
            redis.Redis.from_url(server.address).ping()

    It keeps every write, so that `kill` and `start` lose nothing; `RedisServer(appendonly="no")` forgets all of them.
    Settings are those of redis.conf.
    """

    def __init__(self, **settings: str) -> None:
        self._settings = {"appendonly": "yes", "appendfsync": "always", "save": "", **settings}
        # Not the test's own folder: the path of a socket has 107 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-redis-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix://{self.folder / 'redis.sock'}"

    @property
    def log_file(self) -> Path:
        return self.folder / "redis.log"

    def start(self) -> Self:
        assert self._process is None, "Redis is running already"
        socket = self.folder / "redis.sock"
        socket.unlink(missing_ok=True)
        options = {"port": "0", "unixsocket": str(socket), "dir": str(self.folder), **self._settings}
        words = [word for name, text in options.items() for word in (f"--{name}", text)]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen([redis_command(), *words], stdout=log, stderr=log)
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                raise RedisUnavailable(f"Redis did not start:\n{self.log_file.read_text()}")
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.wait(STOP_TIMEOUT_S)
