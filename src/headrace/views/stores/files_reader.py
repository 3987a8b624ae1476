"""What readers of versions in files have in common: a version may be dropped while it is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from headrace.views.definition import Row
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.reader import Reader
from headrace.views.stores.address_versions import AddressVersions
from headrace.views.stores.folder_versions import FolderVersions


class FilesReader(Reader):
    """Each call reads the newest state that is whole."""

    def __init__(self, versions: FolderVersions | AddressVersions, version: int) -> None:
        self._versions = versions
        self._version = version
        self._definition = versions.definition

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A version that was dropped is an error of its own, whatever the missing files lead to."""
        try:
            yield
        except (DeltaError, OSError, ValueError, BadView) as error:
            if not self._versions.exists(self._version):
                raise self._versions.gone(self._version) from error
            if isinstance(error, BadView):
                raise
            raise ViewUnavailable(
                f"view {self._definition.name}: its files cannot be read: {error}",
                hint="read it again; if the error stays, rebuild the view",
            ) from error
        if not self._versions.exists(self._version):
            raise self._versions.gone(self._version)

    def key_values(self, key: Row, schema: pa.Schema) -> dict[str, Any]:
        """The values of a key, as Arrow scalars of the types of its columns."""
        try:
            if len(key) != len(self._definition.key):
                raise KeyError
            return {name: pa.scalar(key[name], schema.field(name).type) for name in self._definition.key}
        except (KeyError, pa.ArrowException, ValueError, TypeError) as error:
            raise BadView(
                f"view {self._definition.name}: {dict(key)} is not a key",
                hint=f"the key is {', '.join(self._definition.key)}, with values of its types",
            ) from error

    def close(self) -> None:
        pass
