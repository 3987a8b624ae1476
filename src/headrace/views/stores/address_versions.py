"""The versions of a view as Delta tables side by side at an address, such as `s3://bucket/views`.

An object store has no links. So the view's name is a Delta table too, with one row: the name of the version that is
served. A switch is one commit of it. All access is through delta-rs, with the options that the tables have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, PyFileSystem

from headrace.redaction import redacted, scrubbed
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable

SERVED = "served"
"""The column of the pointer's table."""


class AddressVersions:
    """Of one view, at one address."""

    def __init__(self, definition: Definition, base: str, options: Mapping[str, str]) -> None:
        self.definition = definition
        self.base = base.rstrip("/")
        self.options = dict(options)

    @property
    def link(self) -> str:
        return f"{self.base}/{self.definition.name}"

    def path(self, version: int) -> str:
        return f"{self.base}/{self.definition.physical(version)}"

    def check(self) -> None:
        self.versions()
        self.served()

    def versions(self) -> list[int]:
        with self._reaching():
            names = [
                info.path for info in self._files().get_file_info(FileSelector("", allow_not_found=True))
            ]
            found = [
                version
                for name in names
                if (version := self.definition.version_of(name.strip("/"))) is not None
            ]
            return sorted(version for version in found if self._is_table(self.path(version)))

    def served(self) -> int | None:
        with self._reaching():
            if not self._is_table(self.link):
                return None
            pointer = DeltaTable(self.link, storage_options=self.options).to_pyarrow_table()
        names = pointer[SERVED].to_pylist() if pointer.column_names == [SERVED] else []
        version = self.definition.version_of(names[0]) if len(names) == 1 else None
        if version is None:
            raise BadView(
                f"view {self.definition.name}: {redacted(self.link)} is a table, and not a view",
                hint="give the view another name, or another address with --at",
            )
        return version

    def switch(self, version: int) -> None:
        self.served()
        with self._reaching():
            if not self._is_table(self.path(version)):
                raise BadView(
                    f"view {self.definition.name} has no version {version} at {redacted(self.base)}",
                    hint="build it before the switch",
                )
            pointer = pa.table({SERVED: [self.definition.physical(version)]})
            write_deltalake(self.link, pointer, mode="overwrite", storage_options=self.options)

    def drop(self, version: int) -> None:
        if self.served() == version:
            raise BadView(
                f"version {version} of view {self.definition.name} is served",
                hint="switch to another one first",
            )
        self._delete(self.definition.physical(version))

    def drop_view(self) -> None:
        """The name first: a crash leaves versions that nobody is served from, and that a second call deletes."""
        versions = self.versions()
        if self.served() is not None:
            self._delete(self.definition.name)
        for version in versions:
            self._delete(self.definition.physical(version))

    def exists(self, version: int) -> bool:
        with self._reaching():
            return self._is_table(self.path(version))

    def gone(self, version: int) -> ViewUnavailable:
        """The error of a reader whose version was dropped."""
        return ViewUnavailable(
            f"version {version} of view {self.definition.name} is not at {redacted(self.base)} any more",
            hint="read the view again: another version is served",
        )

    def _delete(self, name: str) -> None:
        with self._reaching():
            self._files().delete_dir(name)

    def _is_table(self, address: str) -> bool:
        return DeltaTable.is_deltatable(address, self.options)

    def _files(self) -> PyFileSystem:
        return PyFileSystem(DeltaStorageHandler(self.base, self.options))

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError, ValueError) as error:
            raise ViewUnavailable(
                f"view {self.definition.name}: {redacted(self.base)} cannot be used: "
                f"{scrubbed(str(error), self.base)}",
                hint="check the address, and credentials and region in the options storage.…",
            ) from error
