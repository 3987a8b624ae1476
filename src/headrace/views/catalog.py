"""Views in the data folder: what each is, what it does at the moment, and who works on it.

    <data_dir>/views/<name>/view.json      its versions and their definitions; readable by its owner only, because
                                           addresses have passwords
                           /status.json    what the process that runs it last wrote
                           /lock           held by the process that may write the served version
                           /rebuild.lock   held by the process that rebuilds it
                           /handover       a rebuild is about to switch: the process that runs the view lets go

Which version is served is not decided here. The store knows it: see `store`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.files import replace_json
from headrace.names import did_you_mean
from headrace.process_lock import ProcessLock
from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.store import Store
from headrace.views.stores import open_store


class ViewState(StrEnum):
    NEW = "new"
    BUILDING = "building"
    """the first version, which nobody can read yet"""
    RUNNING = "running"
    RESTARTING = "waiting to restart"
    SWITCHING = "switching"
    """a rebuild has the view, and readers still have the old version"""
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"
    """by the status it runs, but no process holds its lock"""


WORKING = frozenset({ViewState.BUILDING, ViewState.RUNNING, ViewState.RESTARTING, ViewState.SWITCHING})


class ViewRecord(Struct, frozen=True, kw_only=True):
    """The content of `view.json`."""

    name: str
    versions: Mapping[int, Definition]
    """the served one, and the one that is built"""
    current: int
    """The last version that was switched to; the first one while it is built. Its definition names the store, and that
    knows whether a switch got further."""
    building: int | None = None
    """a version beside the current one"""
    dropping: Mapping[int, Definition] = {}
    """versions that are to be deleted"""
    last_version: int = 1
    """Numbers are not used again: jobs, groups and dead letters of a version have its number in their names."""

    @property
    def definition(self) -> Definition:
        return self.versions[self.current]

    def with_building(self, definition: Definition) -> ViewRecord:
        version = self.last_version + 1
        versions = {self.current: self.definition, version: definition}
        return replace(self, versions=versions, building=version, last_version=version)

    def without_building(self) -> ViewRecord:
        """The version that was built is to be deleted."""
        if self.building is None:
            return self
        dropping = {**self.dropping, self.building: self.versions[self.building]}
        return replace(self, versions={self.current: self.definition}, building=None, dropping=dropping)

    def switched(self) -> ViewRecord:
        """The version that was built is the current one, and the one before is to be deleted."""
        assert self.building is not None
        return replace(
            self,
            versions={self.building: self.versions[self.building]},
            current=self.building,
            building=None,
            dropping={**self.dropping, self.current: self.definition},
        )


class ViewStatus(Struct, frozen=True, kw_only=True):
    """The content of `status.json`."""

    state: ViewState = ViewState.NEW
    pid: int | None = None
    version: int | None = None
    rows_in: int = 0
    """records read since the process started"""
    rows_per_s: float = 0.0
    lag: int | None = None
    """records of the topics that were not read at the last batch; None if unknown"""
    dead_letters: int = 0
    """since the process started"""
    error: str = ""
    since_ms: int = 0
    """since when it is in this state"""
    updated_ms: int = 0


class ViewFolder:
    """The files of one view."""

    def __init__(self, path: Path, data_dir: Path) -> None:
        self.name = path.name
        self.data_dir = data_dir
        self._path = path
        self.lock = ProcessLock(path / "lock")
        self.rebuild_lock = ProcessLock(path / "rebuild.lock")

    def record(self) -> ViewRecord:
        return msgspec.json.decode((self._path / "view.json").read_bytes(), type=ViewRecord)

    def write_record(self, record: ViewRecord) -> None:
        replace_json(self._path / "view.json", record, durable=True)

    def create(self, definition: Definition) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        self._path.chmod(0o700)
        self.write_record(ViewRecord(name=definition.name, versions={1: definition}, current=1))

    def store(self, version: int | None = None) -> Store:
        """The store of a version, by default of the current one. The caller closes it."""
        record = self.record()
        return open_store(record.versions[version or record.current], self.data_dir)

    def served(self) -> tuple[Definition, int | None]:
        """The version that readers get, and its definition; None if the first one is not complete."""
        record = self.record()
        store = open_store(record.definition, self.data_dir)
        try:
            version = store.served()
        finally:
            store.close()
        return record.versions.get(version or record.current, record.definition), version

    def status(self) -> ViewStatus:
        try:
            status = msgspec.json.decode((self._path / "status.json").read_bytes(), type=ViewStatus)
        except (FileNotFoundError, msgspec.DecodeError):
            status = ViewStatus()
        if self.lock.is_taken() or self.rebuild_lock.is_taken():
            return status
        return replace(status, state=ViewState.KILLED) if status.state in WORKING else status

    def write_status(self, status: ViewStatus) -> None:
        replace_json(self._path / "status.json", status)

    # A rebuild asks for the served version

    def request_handover(self) -> None:
        (self._path / "handover").touch()

    def end_handover(self) -> None:
        (self._path / "handover").unlink(missing_ok=True)

    def is_handover_wanted(self) -> bool:
        """Whether a rebuild wants the served version. The request of one that was killed does not count."""
        return (self._path / "handover").exists() and self.rebuild_lock.is_taken()

    def remove(self) -> None:
        shutil.rmtree(self._path)


class Views:
    """All views of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute()
        self.path = self.data_dir / "views"

    def names(self) -> list[str]:
        return sorted(path.parent.name for path in self.path.glob("*/view.json"))

    def create(self, definition: Definition) -> ViewFolder:
        if definition.name in self.names():
            raise BadView(
                f"there is a view {definition.name} already",
                hint=f"`headrace view rebuild {definition.name} --sql …` changes it, `headrace view remove "
                f"{definition.name}` removes it",
            )
        folder = ViewFolder(self.path / definition.name, self.data_dir)
        folder.create(definition)
        return folder

    def folder(self, name: str) -> ViewFolder:
        names = self.names()
        if name not in names:
            raise BadView(
                f"there is no view {name} in {self.data_dir}",
                hint=did_you_mean(name, names) or "`headrace view create` creates one",
            )
        return ViewFolder(self.path / name, self.data_dir)
