"""A folder of this machine, or one that it mounts."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.files import replace_text
from headrace.process_lock import ProcessLock

REMOVED, RESTORED = "removed", "restored"
"""A folder is deleted, and written, as a whole: under a name beside it."""


class LocalLock(ProcessLock):
    def holder(self) -> str:
        return ""

    def loss(self) -> str:
        return ""


class LocalFolder:
    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def address(self) -> str:
        return str(self._path)

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def path(self) -> Path:
        return self._path

    def at(self, name: str) -> LocalFolder:
        return LocalFolder(self._path / name)

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        replace_text(self._path / name, content.decode())

    def create(self, name: str, content: bytes) -> bool:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
        beside.write_bytes(content)
        try:
            os.link(beside, path)
        except FileExistsError:
            return False
        finally:
            beside.unlink()
        return True

    def names(self, name: str = "") -> list[str]:
        try:
            return os.listdir(self._path / name)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, name: str = "") -> bool:
        return (self._path / name).exists()

    def delete(self, name: str) -> None:
        path = self._path / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def clear(self, marker: str, *, keep: str = "") -> None:
        assert not keep, "a lock of this machine is not in the folder that it protects"
        if self._path.exists():
            doomed = self._beside(REMOVED)
            shutil.rmtree(doomed, ignore_errors=True)
            os.replace(self._path, doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def fill(self, files: Mapping[str, str], marker: str) -> None:
        beside = self._beside(RESTORED)
        shutil.rmtree(beside, ignore_errors=True)
        for name, text in files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        os.replace(beside, self._path)

    def remove_leftovers(self) -> None:
        for name in (REMOVED, RESTORED):
            shutil.rmtree(self._beside(name), ignore_errors=True)

    def hidden_files(self) -> Iterator[str]:
        for folder, _, names in os.walk(self._path):
            within = os.path.relpath(folder, self._path)
            yield from (os.path.join(within, name) for name in names if name.startswith("."))

    def lock(self, name: str) -> LocalLock:
        return LocalLock(self._path / name)

    def _beside(self, name: str) -> Path:
        return self._path.with_name(f".{self._path.name}.{name}")
