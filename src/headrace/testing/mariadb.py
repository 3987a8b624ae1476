"""A real MariaDB for tests and benchmarks: one server on this machine that can be stopped, killed and started again.

The server comes from the system: Debian's `mariadb-server`, Homebrew's `mariadb`.
"""

from __future__ import annotations

import getpass
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from headrace.testing.ports import free_port
from headrace.testing.server_process import READY_TIMEOUT_S, ServerProcess, ServerUnavailable

ANSWER_TIMEOUT_S = 10
USER = "headrace"
PASSWORD = "secret"

# Small caches, because a test has little data; the binary log as change capture needs it.
_SETTINGS = {
    "innodb_buffer_pool_size": "32M",
    "innodb_log_file_size": "32M",
    "performance_schema": "OFF",
    "log_bin": "bin",
    "server_id": "1",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "max_connections": "50",
}


def mariadb_command(name: str = "mariadbd") -> str:
    """The path of a program of the server. Debian has the server where only root looks for it."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if found is None:
        raise ServerUnavailable(
            "MariaDB is not installed", hint="apt install mariadb-server, or brew install mariadb"
        )
    return found


class MariadbServer(ServerProcess):
    """One server, from entering the context until leaving it.

        with MariadbServer() as mariadb:
            pymysql.connect(**mariadb.login, database=…)

    `settings` are those of a my.cnf. After `stop` or `kill`, `start` starts it again on the same port.
    """

    name = "MariaDB"

    def __init__(self, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = {**_SETTINGS, **(settings or {})}
        self.port = free_port()

    @property
    def login(self) -> dict[str, object]:
        """The keywords of `pymysql.connect` for the superuser."""
        return {"host": "127.0.0.1", "port": self.port, "user": USER, "password": PASSWORD}

    def address(self, database: str, *, user: str = USER, password: str = PASSWORD) -> str:
        return f"mysql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create a database; returns its address."""
        import pymysql

        connection = pymysql.connect(**self.login)
        try:
            connection.cursor().execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        finally:
            connection.close()
        return self.address(name)

    def _launch(self) -> subprocess.Popen[bytes]:
        data = self.folder / "data"
        if not data.exists():
            self._initialize(data)
        settings = {
            **self._settings,
            "bind_address": "127.0.0.1",
            "port": str(self.port),
            "socket": str(self.folder / "mariadb.sock"),
            "init_file": str(self._init_file),
            "pid_file": str(self.folder / "mariadb.pid"),
        }
        options = [f"--{name}={text}" for name, text in settings.items()]
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                [mariadb_command(), *self._common(data), *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
            )

    def _initialize(self, data: Path) -> None:
        account = f"'{USER}'@'%'"
        # One statement a line, run by every start. None of it is in the binary log.
        self._init_file.write_text(
            "SET sql_log_bin = 0;\n"
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO {account} WITH GRANT OPTION;\n"
        )
        command = [mariadb_command("mariadb-install-db"), *self._common(data)]
        done = subprocess.run(
            [*command, "--auth-root-authentication-method=normal", "--skip-test-db"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=READY_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ServerUnavailable(
                f"mariadb-install-db failed: {done.stderr.strip() or done.stdout.strip()}"
            )

    @property
    def _init_file(self) -> Path:
        return self.folder / "users.sql"

    def _common(self, data: Path) -> list[str]:
        # No configuration of the machine applies. MariaDB runs as root only if its user is named.
        return ["--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}"]

    def _is_ready(self) -> bool:
        import pymysql

        try:
            pymysql.connect(**self.login, connect_timeout=ANSWER_TIMEOUT_S).close()
        except pymysql.err.OperationalError:
            return False
        return True
