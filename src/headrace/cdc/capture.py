"""Captures in the data folder: what each captures, what it does at the moment, and requests to it.

    <data_dir>/cdc/<name>/capture.json   the definition; readable by its owner only, because addresses have passwords
                         /status.json    state, counts, progress
                         /lock           held by the process that runs it
                         /paused         it does not run until it is resumed
                         /snapshot.json  tables to read again

The position is not here: it is in the log, in the same transactions as the records.
"""

from __future__ import annotations

import glob
import re
import shutil
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.cdc.errors import BadCapture
from headrace.cdc.outbox.definition import Outbox
from headrace.cdc.source import ChangeSource, SnapshotProgress
from headrace.files import replace_json
from headrace.names import did_you_mean
from headrace.process_lock import ProcessLock
from headrace.redaction import redacted

NAME_LENGTH_MAX = 40
"""A name is part of a replication slot, which has at most 63 characters, and of every topic."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

Keep = Literal["latest", "all", "both"]
"""What the topic of a table keeps: the last change of each key (compacted), every change, or a topic for each."""


class CaptureState(StrEnum):
    NEW = "new"
    SNAPSHOT = "snapshot"
    STREAMING = "streaming"
    RETRYING = "waiting to retry"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"
    """by the status it runs, but no process holds its lock"""


RUNNING = frozenset({CaptureState.SNAPSHOT, CaptureState.STREAMING, CaptureState.RETRYING})


class Capture(Struct, frozen=True, kw_only=True):
    """A definition: the content of `capture.json`."""

    name: str
    address: str
    tables: tuple[str, ...] = ()
    """patterns of names; empty for all tables"""
    keep: Keep = "latest"
    keep_by_table: tuple[tuple[str, Keep], ...] = ()
    """a pattern of names, and what the topics of these tables keep instead of `keep`; the first that matches"""
    schemas: bool = False
    """each record repeats its schema, as sink connectors of Kafka Connect need it"""
    partitions: int | None = None
    """of new topics; the broker's default if not set"""
    outbox: Outbox | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > NAME_LENGTH_MAX:
            raise BadCapture(
                f"{self.name!r} cannot be the name of a capture",
                hint=f"letters, digits, '_' and '-', at most {NAME_LENGTH_MAX}, beginning with a letter",
            )

    @property
    def connector(self) -> str:
        """The kind of database, as Debezium names its connectors."""
        scheme = self.address.partition(":")[0]
        return {"postgres": "postgresql"}.get(scheme, scheme)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Of the tables that the source reads; empty for all. Beside an outbox, only tables that are named are read."""
        return self.tables if self.outbox is None else (*self.tables, glob.escape(self.outbox.table))

    @property
    def _has_latest(self) -> bool:
        return any(keep != "all" for keep in (self.keep, *(keep for _, keep in self.keep_by_table)))

    def keep_of(self, table: str) -> Keep:
        """What the topic of a table keeps, by its name with the schemas before it."""
        return next((keep for pattern, keep in self.keep_by_table if _is_of(table, pattern)), self.keep)

    def check_keep(self, tables: Sequence[str]) -> None:
        """A pattern that matches none of the tables is a mistake: their history would not be kept."""
        for pattern, keep in self.keep_by_table:
            if not any(_is_of(table, pattern) for table in tables):
                raise BadCapture(
                    f"--keep {pattern}={keep}: no captured table matches {pattern}",
                    hint=did_you_mean(pattern, tables) or f"choose from {', '.join(tables)}",
                )

    def open_source(self) -> ChangeSource:
        """The source of this kind of database. Nothing connects before its first call."""
        scheme, separator, place = self.address.partition("://")
        match scheme if separator else "":
            case "sqlite":
                from headrace.cdc.sqlite.source import SqliteSource

                return SqliteSource(self.name, Path(place.removeprefix("/")), self.patterns or ("*",))
            case "postgresql" | "postgres":
                try:
                    from headrace.cdc.postgres.source import PostgresSource
                except ImportError as error:
                    raise BadCapture(
                        f"captures of PostgreSQL need psycopg, numpy and pyarrow: {error}",
                        hint="pip install 'headrace[cdc]'",
                    ) from error
                patterns = self.patterns or ("*.*",)
                return PostgresSource(
                    self.name,
                    self.address,
                    patterns,
                    reselect=self._has_latest,
                    by_columns=self.outbox is None,
                )
            case "mysql" | "mariadb":
                try:
                    from headrace.cdc.mysql.source import MysqlSource
                except ImportError as error:
                    raise BadCapture(
                        f"captures of MySQL and MariaDB need pymysql and mysql-replication: {error}",
                        hint="pip install 'headrace[cdc]'",
                    ) from error
                return MysqlSource(self.name, self.address, self.patterns or ("*",))
        raise BadCapture(
            f"{redacted(self.address)} is not the address of a database that can be captured",
            hint="sqlite:///FILE (sqlite:////FILE for an absolute path), postgresql://USER@HOST/DATABASE,"
            " mysql://USER@HOST/DATABASE or mariadb://USER@HOST/DATABASE",
        )


def _is_of(table: str, pattern: str) -> bool:
    """Whether the name of a table matches, with or without the schemas before it."""
    return fnmatchcase(table, pattern) or fnmatchcase(table.rpartition(".")[2], pattern)


class CaptureStatus(Struct, frozen=True, kw_only=True):
    """The content of `status.json`. Counts are those since the process started."""

    state: CaptureState = CaptureState.NEW
    pid: int | None = None
    events: int = 0
    transactions: int = 0
    committed_ms: int | None = None
    """when the last captured change was committed in the database"""
    lag_bytes: int | None = None
    error: str = ""
    rejected: int = 0
    """rows of the outbox that became dead letters"""
    updated_ms: int = 0
    snapshots: tuple[SnapshotProgress, ...] = ()


class _Requested(Struct, frozen=True):
    tables: tuple[str, ...]


class CaptureFolder:
    """The files of one capture."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lock = ProcessLock(path / "lock")

    def definition(self) -> Capture:
        return msgspec.json.decode((self._path / "capture.json").read_bytes(), type=Capture)

    def create(self, capture: Capture) -> None:
        self._path.mkdir(parents=True)
        self._path.chmod(0o700)
        replace_json(self._path / "capture.json", capture, durable=True)

    def status(self) -> CaptureStatus:
        try:
            status = msgspec.json.decode((self._path / "status.json").read_bytes(), type=CaptureStatus)
        except (FileNotFoundError, msgspec.DecodeError):
            status = CaptureStatus()
        if self.lock.is_taken():
            return status
        if self.is_paused():
            return replace(status, state=CaptureState.PAUSED)
        return replace(status, state=CaptureState.KILLED) if status.state in RUNNING else status

    def write_status(self, status: CaptureStatus) -> None:
        replace_json(self._path / "status.json", status)

    def pause(self) -> None:
        (self._path / "paused").touch()

    def resume(self) -> None:
        (self._path / "paused").unlink(missing_ok=True)

    def is_paused(self) -> bool:
        return (self._path / "paused").exists()

    def request_snapshot(self, tables: Sequence[str]) -> None:
        self._write_requests((*self.requested_snapshots(), *tables))

    def requested_snapshots(self) -> tuple[str, ...]:
        try:
            return msgspec.json.decode((self._path / "snapshot.json").read_bytes(), type=_Requested).tables
        except FileNotFoundError:
            return ()

    def clear_requests(self, tables: Sequence[str]) -> None:
        self._write_requests([name for name in self.requested_snapshots() if name not in tables])

    def _write_requests(self, tables: Sequence[str]) -> None:
        wanted = tuple(dict.fromkeys(tables))
        replace_json(self._path / "snapshot.json", _Requested(wanted), durable=True)

    def remove(self) -> None:
        shutil.rmtree(self._path)


class Captures:
    """All captures of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "cdc"

    def names(self) -> list[str]:
        return sorted(path.parent.name for path in self._folder.glob("*/capture.json"))

    def add(self, capture: Capture) -> CaptureFolder:
        if capture.name in self.names():
            raise BadCapture(
                f"there is a capture {capture.name} already",
                hint=f"`headrace cdc remove {capture.name}` removes it; or choose another name",
            )
        folder = CaptureFolder(self._folder / capture.name)
        folder.create(capture)
        return folder

    def folder(self, name: str) -> CaptureFolder:
        names = self.names()
        if name not in names:
            raise BadCapture(
                f"there is no capture {name} in {self._folder.parent}",
                hint=did_you_mean(name, names) or "`headrace cdc add` adds one",
            )
        return CaptureFolder(self._folder / name)
