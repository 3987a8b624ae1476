"""A PostgreSQL server with the tables of pgbench, and pgbench as its load."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headrace.errors import HeadraceError
from headrace.testing.postgres import PostgresServer, postgres_binaries

SETTINGS = {
    "wal_level": "logical",
    "max_wal_size": "8GB",
    "shared_buffers": "512MB",
}
CHANGES_PER_TRANSACTION = 4
"""pgbench's: updates of three tables, and an insert"""
CLIENTS = 4

_PROCESSED = re.compile(r"actually processed: (\d+)")


class LoadFailed(HeadraceError):
    """pgbench ended with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    address: str
    rows: int
    """of pgbench_accounts"""

    def run_load(self, *options: str) -> int:
        """pgbench's own transactions; returns how many were committed."""
        found = _PROCESSED.search(_pgbench(self.address, "-n", "-c", str(CLIENTS), "-j", "1", *options))
        assert found is not None
        return int(found[1])

    def copy_rate(self, file: str = os.devnull) -> float:
        """Rows/s of COPY … TO STDOUT by psql, the fastest that a client can read them."""
        command = [str(postgres_binaries() / "psql"), self.address, "-c", "COPY pgbench_accounts TO STDOUT"]
        started_s = time.perf_counter()
        with open(file, "wb") as output:
            subprocess.run(command, stdout=output, check=True)
        return self.rows / (time.perf_counter() - started_s)

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.address, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@contextlib.contextmanager
def running_database(scale: int) -> Iterator[Database]:
    with PostgresServer(settings=SETTINGS) as server:
        address = server.create_database("bench")
        _pgbench(address, "-i", "-q", "-s", str(scale))
        database = Database(address=address, rows=scale * 100_000)
        # pgbench's history has no key, and a capture needs one.
        database.execute("ALTER TABLE pgbench_history ADD COLUMN id bigserial PRIMARY KEY", "CHECKPOINT")
        yield database


def _pgbench(address: str, *options: str) -> str:
    given = conninfo_to_dict(address)
    command = [str(postgres_binaries() / "pgbench"), "-h", str(given["host"]), "-p", str(given["port"])]
    command += ["-U", str(given["user"]), *options, str(given["dbname"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoadFailed(f"pgbench ended with code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout
