"""The versions of a view as folders side by side. The view's name is a symbolic link to the one that is served:

    users_by_city -> users_by_city__2
    users_by_city__2/
    users_by_city__3/          being built

Renaming a link over another is one step of the file system, so the name is never missing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from headrace.files import replace_link
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable


class FolderVersions:
    """Of one view, in one folder."""

    def __init__(self, definition: Definition, base: Path) -> None:
        self.definition = definition
        self.base = base.absolute()

    @property
    def link(self) -> Path:
        return self.base / self.definition.name

    def path(self, version: int) -> Path:
        return self.base / self.definition.physical(version)

    def check(self) -> None:
        there = self.base
        while not there.exists() and there != there.parent:
            there = there.parent
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise BadView(
                f"view {self.definition.name}: {there} cannot be written",
                hint="give it another folder with --at, or change the permissions",
            )
        if self.link.is_symlink() or self.link.exists():
            self.served()

    def versions(self) -> list[int]:
        """Also of folders that are not whole yet."""
        try:
            names = os.listdir(self.base)
        except FileNotFoundError:
            return []
        return sorted({version for name in names if (version := self._version(name)) is not None})

    def served(self) -> int | None:
        try:
            target = os.readlink(self.link)
        except FileNotFoundError:
            return None
        except OSError:
            target = ""
        version = self.definition.version_of(target)
        if version is None:
            raise BadView(
                f"view {self.definition.name}: {self.link} exists and is not a view",
                hint="give the view another name, or another folder with --at",
            )
        return version

    def switch(self, version: int) -> None:
        if not self.path(version).is_dir():
            raise BadView(
                f"view {self.definition.name} has no version {version} in {self.base}",
                hint="build it before the switch",
            )
        self.served()
        replace_link(self.link, self.path(version).name)

    def drop(self, version: int) -> None:
        if self.served() == version:
            raise BadView(
                f"version {version} of view {self.definition.name} is served",
                hint="switch to another one first",
            )
        self._delete(version)

    def drop_view(self) -> None:
        """The name first: a crash leaves versions that nobody is served from, and that a second call deletes."""
        self.served()
        self.link.unlink(missing_ok=True)
        for version in self.versions():
            self._delete(version)

    def exists(self, version: int) -> bool:
        return self.path(version).exists()

    def gone(self, version: int) -> ViewUnavailable:
        """The error of a reader whose version was dropped."""
        return ViewUnavailable(
            f"version {version} of view {self.definition.name} is not in {self.base} any more",
            hint="read the view again: another version is served",
        )

    def _delete(self, version: int) -> None:
        """Under a name that no reader knows, so that they see all of a version or nothing."""
        path = self.path(version)
        hidden = path.with_name(f".{path.name}.dropped")
        if hidden.exists():
            shutil.rmtree(hidden)
        if path.is_symlink():
            path.unlink()
        elif path.exists():
            path.rename(hidden)
            shutil.rmtree(hidden)

    def _version(self, name: str) -> int | None:
        """The version that a file of this name belongs to."""
        return self.definition.version_of(name)
