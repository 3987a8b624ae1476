"""The files of jobs that other processes read: one folder per job in the data folder, wherever that is.

    <data_dir>/jobs/<name>/job.json         the status: process, state, last progress
                          /lock             held by the process that runs the job
                          /stop             a request to stop the job
                          /forgotten.json   checkpoints that a reset has deleted
                          /plan.json        the steps of the plan that wrote the checkpoint
                          /checkpoint/      Spark's checkpoint

This module does not import Spark: `headrace job list` reads these files only.
"""

from __future__ import annotations

import contextlib
import difflib
import enum
import math
import re
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.errors import BadJob
from headrace.pipeline.folders.folder import Folder, FolderUnavailable, Lock, write_json
from headrace.pipeline.folders.opened import open_folder
from headrace.pipeline.report.hot_keys import HotKey

NAME_LENGTH_MAX = 200
"""A name is a folder, a topic key and part of a group id, which are limited to 249 or 255 characters."""

STATUS_FILE, STOP_FILE, DELETED_FILE, PLAN_FILE = "job.json", "stop", "forgotten.json", "plan.json"

REMOTE_LOOK_S = 2.0
"""Each look at a folder of another file system is a request, which object stores charge for."""

_TEMPORARY = re.compile(r"\..+(\.\d+|\.tmp)")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class JobState(enum.StrEnum):
    """What a job does.

    waiting → starting → running ⇄ waiting to restart; every one of them ends as stopped, done, failed or killed.
    """

    WAITING = "waiting"
    """for a job whose output this one reads (only if launched with `once`)"""
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "waiting to restart"
    STOPPED = "stopped"
    """on request"""
    DONE = "done"
    """everything is processed"""
    FAILED = "failed"
    KILLED = "killed"
    """by the status it runs, but no process holds its lock"""


ENDS = frozenset({JobState.STOPPED, JobState.DONE, JobState.FAILED, JobState.KILLED})


class JobStatus(Struct, frozen=True, kw_only=True):
    """The content of `job.json`. Numbers are those of the last batch, unless described otherwise."""

    name: str
    state: JobState
    pid: int
    mode: str
    sources: tuple[str, ...] = ()
    target: str = ""
    guarantee: str = ""
    dead_letter_topics: tuple[str, ...] = ()
    """for bad records, rejected rows and late rows, if there are any"""
    bootstrap: str = ""
    checkpoint: str = ""
    """the identity that Spark gave the query, kept until another query starts; empty before the first start"""
    checkpoint_folder: str = ""
    started_ms: int = 0
    updated_ms: int = 0
    restarts: int = 0
    """since the job was started"""
    error: str = ""
    notes: tuple[str, ...] = ()
    """warnings while the job runs"""
    batch_id: int | None = None
    rows_in: int = 0
    """since the job was started"""
    rows_per_s: float = 0.0
    rows_out: int | None = None
    """written to the sink since the job was started; None if Spark writes the target"""
    lag: int | None = None
    """records of the sources that are not read yet; None if a source does not report them"""
    watermark: str | None = None
    late_rows: int = 0
    """dropped as late since the job was started"""
    late_rows_kept: int = 0
    """of them, written to the topics for late rows"""
    left_out_rows: int = 0
    """in no window since the job was started: without an event time or a gap"""
    window_rows: int = 0
    """rows of windows that Headrace runs, once for each window, since the job was started"""
    window_rows_behind: int = 0
    """of them, those that arrived after the on-time pane of their window"""
    completeness: float | None = None
    """the share of rows that were in the on-time panes, over all windows so far"""
    state_rows: int = 0
    state_bytes: int = 0
    bad_rows: int = 0
    """that the sources could not parse, since the job was started"""
    dead_letters: int = 0
    """written since the job was started"""
    batch_ms: int = 0
    skew_ms_p50: int | None = None
    """processing time minus event time, of the last batch with rows; None if no source has an event time"""
    skew_ms_p95: int | None = None
    skew_ms_p99: int | None = None
    hot_keys: tuple[HotKey, ...] = ()
    """the keys with most rows of each stateful operator, at least 1 %, of the last batch with rows"""

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> JobStatus:
        return msgspec.json.decode(text, type=cls)


class DeletedCheckpoints(Struct, frozen=True, kw_only=True):
    """Checkpoints that a reset deleted, whose fences no longer count, and whether the next start clears the target."""

    checkpoints: tuple[str, ...] = ()
    clear_target: bool = False


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        raise BadJob(
            f"{name!r} cannot be the name of a job",
            hint=f"letters, digits, '.', '_' and '-', at most {NAME_LENGTH_MAX}, beginning with a letter or digit",
        )
    return name


class JobFolder:
    """The files of one job."""

    def __init__(self, folder: Path | Folder) -> None:
        self.folder = open_folder(folder)
        self.name = self.folder.name
        self._lock = self.folder.lock("lock")
        self._stop_looked_s = -math.inf
        self._is_stop_requested = False

    @property
    def path(self) -> Path:
        """Of a data folder on this machine."""
        assert self.folder.path is not None
        return self.folder.path

    def checkpoint(self) -> Checkpoint:
        """The one in this folder."""
        return Checkpoint(self.folder.at("checkpoint"))

    def take(self) -> None:
        """Become the process that runs this job."""
        if not self._lock.take():
            holder = self._lock.holder()
            raise BadJob(
                f"job {self.name} runs already" + (f", in {holder}" if holder else ""),
                hint=f"headrace job stop {self.name}, or give this one another name",
            )
        self.clear_stop()  # an earlier request was for another process
        for name in self.folder.names():
            if _TEMPORARY.fullmatch(name):  # by a process that was killed before it renamed the file
                self.folder.delete(name)

    def release(self) -> None:
        self._lock.release()

    def is_taken(self) -> bool:
        return self._lock.is_taken()

    def loss(self) -> str:
        """Why this process no longer is the one that runs the job; empty as long as it is."""
        return self._lock.loss()

    def read(self) -> JobStatus | None:
        """The status. A job that ran when its process died is `killed`."""
        try:
            record = JobStatus.from_json(self.folder.read(STATUS_FILE))
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise HeadraceError(
                f"{self.folder.address}/{STATUS_FILE} is not the record of a job",
                hint="remove it; the next start writes it again",
            ) from error
        if record.state not in ENDS and not self.is_taken():
            return msgspec.structs.replace(record, state=JobState.KILLED)
        return record

    def write(self, record: JobStatus) -> None:
        write_json(self.folder, STATUS_FILE, record)

    def request_stop(self) -> None:
        self.folder.write(STOP_FILE, b"")

    def is_stop_requested(self) -> bool:
        """Looks each time in a folder of this machine, and every REMOTE_LOOK_S elsewhere."""
        now_s = time.monotonic()
        if self.folder.path is not None or now_s - self._stop_looked_s >= REMOTE_LOOK_S:
            self._stop_looked_s = now_s
            with contextlib.suppress(FolderUnavailable):  # if that lasts, the job fails, and reports it
                self._is_stop_requested = self.folder.exists(STOP_FILE)
        return self._is_stop_requested

    def clear_stop(self) -> None:
        self.folder.delete(STOP_FILE)
        self._is_stop_requested = False

    def deleted_checkpoints(self) -> DeletedCheckpoints:
        try:
            kept = self.folder.read(DELETED_FILE)
        except FileNotFoundError:
            return DeletedCheckpoints()
        return msgspec.json.decode(kept, type=DeletedCheckpoints)

    def note_deleted(self, deleted: DeletedCheckpoints) -> None:
        write_json(self.folder, DELETED_FILE, deleted)


class Registry:
    """All jobs of a data folder."""

    def __init__(self, data_dir: Path | str) -> None:
        self._data_dir = str(data_dir)
        self._jobs = open_folder(data_dir).at("jobs")

    def folder(self, name: str) -> JobFolder:
        return JobFolder(self._jobs.at(check_name(name)))

    def list(self) -> list[JobStatus]:
        found = (self.folder(name).read() for name in sorted(self._jobs.names()) if _NAME.fullmatch(name))
        return [record for record in found if record is not None]

    def read(self, name: str) -> JobStatus:
        record = self.folder(name).read()
        if record is None:
            names = [each.name for each in self.list()]
            near = difflib.get_close_matches(name, names) or names
            raise BadJob(
                f"there is no job {name} in {self._data_dir}",
                hint=f"known here: {', '.join(near) or 'none'}",
            )
        return record

    def checkpoint(self, name: str) -> Checkpoint:
        """The checkpoint of a job, which may be outside of the data folder."""
        elsewhere = self.read(name).checkpoint_folder
        return Checkpoint(elsewhere) if elsewhere else self.folder(name).checkpoint()

    def is_running(self, name: str) -> bool:
        return self.folder(name).is_taken()

    def request_stop(self, name: str) -> None:
        """Request the job's process to drain and stop the job. It checks several times a second."""
        self.read(name)
        if self.is_running(name):
            self.folder(name).request_stop()

    def wait_stopped(self, name: str, *, timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while self.is_running(name):
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.1)
        return True

    def reset(self, name: str, *, clear_target: bool = False) -> None:
        """Delete checkpoint and plan: the next start is that of a new job.

        The target keeps its rows, unless `clear_target` is set: then the next start clears it.
        """
        found = self.read(name)
        folder = self.folder(name)
        try:
            folder.take()
        except BadJob as runs:
            raise BadJob(runs.message, hint=f"headrace job stop {name} first") from runs
        lock: Lock | None = None
        try:
            checkpoint = self.checkpoint(name)
            lock = lock_of(checkpoint, folder)
            if lock is not None and not lock.take():
                raise BadJob(f"job {name} runs in {lock.holder()}", hint="stop it there first")
            kept = folder.deleted_checkpoints()
            known = filter(None, (found.checkpoint, checkpoint.identity()))
            identities = dict.fromkeys((*kept.checkpoints, *known))
            # Written before anything is removed, so that an interrupted reset can be repeated.
            folder.note_deleted(
                DeletedCheckpoints(
                    checkpoints=tuple(identities), clear_target=clear_target or kept.clear_target
                )
            )
            checkpoint.remove()
            folder.folder.delete(PLAN_FILE)
            folder.write(
                msgspec.structs.replace(found, batch_id=None, watermark=None, state_rows=0, state_bytes=0)
            )
        finally:
            if lock is not None:
                lock.release()
            folder.release()


def lock_of(checkpoint: Checkpoint, folder: JobFolder) -> Lock | None:
    """The lock of a checkpoint that other machines reach; None if the lock of the job's folder protects it."""
    is_inside = checkpoint.folder.address.startswith(f"{folder.folder.address}/")
    return None if is_inside else checkpoint.lock()
