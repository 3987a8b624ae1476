"""What a target does, in files that other commands read.

<data_dir>/webhooks/targets/<name>/status.json    written by the process that delivers
                                  /paused.json    exists while the target is paused
                                  /attempts.jsonl, failures.jsonl    the history of attempts
                           /lock                  held by the process that delivers
"""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.files import replace_json
from headrace.process_lock import ProcessLock


class TargetState(StrEnum):
    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"
    """it can't run until a person changes something"""
    STOPPED = "stopped"
    KILLED = "killed"
    """by its status it runs, but no process holds the lock"""


class TargetStatus(Struct, frozen=True, kw_only=True):
    """The content of `status.json`; counts are those of the process."""

    state: TargetState = TargetState.NEW
    error: str = ""
    delivered: int = 0
    failed: int = 0
    """attempts"""
    skipped: int = 0
    """records that the filter does not match"""
    dead_letters: int = 0
    in_flight: int = 0
    pending: int = 0
    """messages that are read and not delivered"""
    per_s: float = 0.0
    """deliveries in the last second"""
    last_success_ms: int | None = None
    failing_since_ms: int | None = None
    updated_ms: int = 0


class Paused(Struct, frozen=True, kw_only=True):
    """The content of `paused.json`."""

    reason: str
    since_ms: int


class TargetFolder:
    def __init__(self, data_dir: Path, name: str) -> None:
        self.path = targets_folder(data_dir) / name
        self._lock = runner_lock(data_dir)

    def status(self) -> TargetStatus:
        try:
            status = msgspec.json.decode((self.path / "status.json").read_bytes(), type=TargetStatus)
        except (FileNotFoundError, msgspec.DecodeError):
            status = TargetStatus()
        if (paused := self.paused()) is not None:
            return replace(status, state=TargetState.PAUSED, error=paused.reason)
        if status.state in (TargetState.RUNNING, TargetState.FAILED) and not self._lock.is_taken():
            return replace(status, state=TargetState.KILLED)
        return status

    def write_status(self, status: TargetStatus) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        replace_json(self.path / "status.json", status)

    def paused(self) -> Paused | None:
        """A damaged file counts as a pause: nothing is sent that should not be."""
        try:
            return msgspec.json.decode((self.path / "paused.json").read_bytes(), type=Paused)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            return Paused(reason=f"{self.path / 'paused.json'} is damaged", since_ms=0)

    def pause(self, reason: str, now_ms: int) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        replace_json(self.path / "paused.json", Paused(reason=reason, since_ms=now_ms), durable=True)

    def resume(self) -> None:
        (self.path / "paused.json").unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def targets_folder(data_dir: Path) -> Path:
    return data_dir.absolute() / "webhooks" / "targets"


def runner_lock(data_dir: Path) -> ProcessLock:
    """One process at a time delivers for the targets of a data folder."""
    return ProcessLock(targets_folder(data_dir) / "lock")
