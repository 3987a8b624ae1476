"""A real Redis for tests: Debian's redis-server, on a unix socket in a folder of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

from headrace.testing.server_process import ServerProcess, ServerUnavailable

ANSWER_TIMEOUT_S = 10.0


def redis_command() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise ServerUnavailable(
            "redis-server is not installed", hint="apt install redis-server, or brew install redis"
        )
    return found


class RedisServer(ServerProcess):
    """One Redis, from entering the context until leaving it.

        with RedisServer() as server:
            redis.Redis.from_url(server.address).ping()

    It stores every write on disk, so that `kill` and `start` lose nothing; `RedisServer(appendonly="no")` loses all
    data. Settings are those of redis.conf.
    """

    name = "Redis"

    def __init__(self, **settings: str) -> None:
        super().__init__()
        self._settings = {"appendonly": "yes", "appendfsync": "always", "save": "", **settings}

    @property
    def address(self) -> str:
        return f"unix://{self._socket}"

    @property
    def _socket(self) -> Path:
        return self.folder / "redis.sock"

    def _launch(self) -> subprocess.Popen[bytes]:
        self._socket.unlink(missing_ok=True)
        options = {"port": "0", "unixsocket": str(self._socket), "dir": str(self.folder), **self._settings}
        words = [word for name, text in options.items() for word in (f"--{name}", text)]
        with self.log_file.open("ab") as log:
            return subprocess.Popen([redis_command(), *words], stdout=log, stderr=log)

    def _is_ready(self) -> bool:
        """The socket exists before Redis listens on it, and Redis listens before it has loaded its data."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            try:
                connection.connect(str(self._socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
            except OSError:
                return False
