"""Debezium's engine for tests and benchmarks: a second opinion on captures, from the jars that Maven has.

A small Java program, `DebeziumToTopics.java`, writes what the engine emits to topics. Eclipse's compiler compiles it,
so that a Java runtime is enough.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict

from headrace.errors import HeadraceError
from headrace.java import JarSet, fetch_jars, last_lines
from headrace.testing.java import JavaTools, compiled

VERSION = "3.3.1.Final"
JARS = JarSet(
    name=f"debezium-{VERSION}",
    dependencies=(
        f"io.debezium:debezium-embedded:{VERSION}",
        f"io.debezium:debezium-connector-postgres:{VERSION}",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
HEAP_MB = 1024

_SOURCE = Path(__file__).with_name("DebeziumToTopics.java")
_WAIT_S = 0.02


class DebeziumFailed(HeadraceError):
    """The engine ended with an error, or took too long."""


class DebeziumEngine:
    """The engine on a PostgreSQL database, from entering the context until leaving it.

    `more` are properties of the connector. Without a `bootstrap` events are counted, and written nowhere. The position
    is in `folder`, so that another engine continues there.
    """

    def __init__(
        self,
        name: str,
        address: str,
        folder: Path,
        *,
        bootstrap: str | None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._properties = _properties(name, address, folder) | dict(more or {})
        self._folder = folder
        self._bootstrap = bootstrap or "-"
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._seen: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "engine.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in self._properties.items()))
        jars = fetch_jars(JARS)
        classes = compiled(_SOURCE, jars)
        tools = JavaTools(jars=jars, heap_mb=HEAP_MB, quick_start=False, log_level="warn")
        command = tools.command("DebeziumToTopics", str(file), self._bootstrap)
        command[command.index("-cp") + 1] += f":{classes}"
        with (self._folder / "engine.log").open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._reader is not None
        self._reader.join()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def batches(self) -> list[tuple[int, int]]:
        """How many events were acknowledged at which time in milliseconds, after each batch."""
        return list(self._seen)

    @property
    def events(self) -> int:
        return self._seen[-1][0] if self._seen else 0

    def wait_for_events(self, count: int, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while self.events < count:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                log = last_lines((self._folder / "engine.log").read_text(errors="replace"))
                raise DebeziumFailed(f"Debezium emitted {self.events:,} of {count:,} events:\n{log}")
            time.sleep(_WAIT_S)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word, *numbers = line.split()
            if word == "events":
                events, at_ms = map(int, numbers)
                self._seen.append((events, at_ms))


def _properties(name: str, address: str, folder: Path) -> dict[str, str]:
    """The connector with its defaults, except that a schema is not repeated in each event."""
    given = conninfo_to_dict(address)
    return {
        "name": name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "topic.prefix": name,
        "slot.name": f"debezium_{name}",
        "publication.name": f"debezium_{name}",
        "publication.autocreate.mode": "filtered",
        "database.hostname": str(given["host"]),
        "database.port": str(given["port"]),
        "database.user": str(given["user"]),
        "database.password": str(given.get("password") or ""),
        "database.dbname": str(given["dbname"]),
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets.dat"),
        "offset.flush.interval.ms": "1000",
        "converter.schemas.enable": "false",
    }
