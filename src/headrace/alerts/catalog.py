"""Alerts in the data folder: definitions, silences, requests to the process that runs them.

    <data_dir>/alerts/<name>/alert.json       the definition
                     /silences/<id>.json
                     /requests/<id>.json      acknowledgements that the runner has not seen
                     /vapid.json              the keys of web push
                     /status.json, lock       of the process that runs all alerts

The folder is readable by its owner only, because addresses have passwords. What fires is not here: it is in the log.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.alerts.definition import Alert, check
from headrace.alerts.errors import BadAlert
from headrace.alerts.silences import Silence
from headrace.alerts.targets.vapid import VapidKeys
from headrace.files import replace_json
from headrace.names import did_you_mean
from headrace.process_lock import ProcessLock

ALERTS_MAX = 500
"""Of a data folder."""

SILENCES_MAX = 1_000
"""Each is compared with every key that is about to be in a message."""

_FIXED = ("silences", "requests")

StructT = TypeVar("StructT", bound=Struct)


class Acknowledgement(Struct, frozen=True, kw_only=True):
    """A request: firings of keys that match, of before that time."""

    id: str
    alert: str
    at_ms: int
    key: Mapping[str, str] = {}
    by: str = ""


class RunnerStatus(Struct, frozen=True, kw_only=True):
    """The content of `status.json`."""

    state: str = "never ran"
    pid: int | None = None
    updated_ms: int = 0
    error: str = ""


class Alerts:
    """All alerts of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute()
        self._folder = self.data_dir / "alerts"
        self.lock = ProcessLock(self._folder / "lock")

    def names(self) -> list[str]:
        return sorted(path.parent.name for path in self._folder.glob("*/alert.json"))

    def get(self, name: str) -> Alert:
        names = self.names()
        if name not in names:
            raise BadAlert(
                f"there is no alert {name} in {self.data_dir}",
                hint=did_you_mean(name, names) or "`headrace alert add` adds one",
            )
        path = self._folder / name / "alert.json"
        try:
            alert = msgspec.json.decode(path.read_bytes(), type=Alert)
        except msgspec.DecodeError as error:
            raise BadAlert(
                f"{path} is not a definition: {error}", hint="remove the alert and add it again"
            ) from error
        check(alert)
        return alert

    def add(self, alert: Alert) -> None:
        check(alert)
        names = self.names()
        if alert.name in names or alert.name in _FIXED:
            raise BadAlert(
                f"there is an alert {alert.name} already",
                hint=f"`headrace alert remove {alert.name}` removes it; or choose another name",
            )
        if len(names) >= ALERTS_MAX:
            raise BadAlert(f"there are {ALERTS_MAX} alerts", hint="remove one, or use another data folder")
        self._write(self._made(alert.name) / "alert.json", alert)

    def remove(self, name: str) -> None:
        self.get_path(name)
        shutil.rmtree(self._folder / name)

    def get_path(self, name: str) -> Path:
        if name not in self.names():
            self.get(name)
        return self._folder / name / "alert.json"

    def versions(self) -> dict[str, int]:
        """By name, what changes when a definition is replaced: cheap, the runner looks every second."""
        found = {}
        for name in self.names():
            try:
                found[name] = (self._folder / name / "alert.json").stat().st_mtime_ns
            except FileNotFoundError:
                continue  # removed between the two looks
        return found

    # Silences

    def silences(self, now_ms: int) -> list[Silence]:
        """Those that are not over."""
        found = [each for each in self._read_all("silences", Silence) if each.end_ms > now_ms]
        return sorted(found, key=lambda each: (each.end_ms, each.id))

    def add_silence(self, silence: Silence) -> None:
        if len(self.silences(silence.start_ms)) >= SILENCES_MAX:
            raise BadAlert(f"there are {SILENCES_MAX:,} silences", hint="remove some")
        self._write(self._made("silences") / f"{silence.id}.json", silence)

    def remove_silence(self, silence_id: str) -> None:
        known = [each.id for each in self._read_all("silences", Silence)]
        if silence_id not in known:
            raise BadAlert(
                f"there is no silence {silence_id}",
                hint=did_you_mean(silence_id, known) or "`headrace alert silence list` lists them",
            )
        (self._folder / "silences" / f"{silence_id}.json").unlink(missing_ok=True)

    def remove_ended(self, now_ms: int) -> None:
        for each in self._read_all("silences", Silence):
            if each.end_ms <= now_ms:
                (self._folder / "silences" / f"{each.id}.json").unlink(missing_ok=True)

    # Requests

    def request(self, acknowledgement: Acknowledgement) -> None:
        self._write(self._made("requests") / f"{acknowledgement.id}.json", acknowledgement)

    def requests(self) -> list[Acknowledgement]:
        return sorted(self._read_all("requests", Acknowledgement), key=lambda each: (each.at_ms, each.id))

    def clear_request(self, request_id: str) -> None:
        (self._folder / "requests" / f"{request_id}.json").unlink(missing_ok=True)

    # Keys and status

    def vapid_keys(self) -> VapidKeys | None:
        try:
            return msgspec.json.decode((self._folder / "vapid.json").read_bytes(), type=VapidKeys)
        except FileNotFoundError:
            return None

    def write_vapid_keys(self, keys: VapidKeys) -> None:
        """New keys end every subscription, so they are never replaced."""
        if self.vapid_keys() is not None:
            raise BadAlert(
                "there are keys already",
                hint="subscriptions belong to them; delete vapid.json to replace them",
            )
        self._write(self._made("") / "vapid.json", keys)

    def status(self) -> RunnerStatus:
        try:
            status = msgspec.json.decode((self._folder / "status.json").read_bytes(), type=RunnerStatus)
        except (FileNotFoundError, msgspec.DecodeError):
            status = RunnerStatus()
        if not self.lock.is_taken() and status.state in ("running", "waiting to retry"):
            return replace(status, state="killed")
        return status

    def write_status(self, status: RunnerStatus) -> None:
        replace_json(self._made("") / "status.json", status)

    def _made(self, folder: str) -> Path:
        path = self._folder / folder
        path.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        return path

    def _write(self, path: Path, content: Struct) -> None:
        replace_json(path, content, durable=True)
        os.chmod(path, 0o600)

    def _read_all(self, folder: str, kind: type[StructT]) -> list[StructT]:
        found = []
        for path in (self._folder / folder).glob("*.json"):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=kind))
            except (FileNotFoundError, msgspec.DecodeError):
                continue  # removed meanwhile, or not written by a command
        return found


def new_id() -> str:
    return uuid.uuid4().hex[:12]
