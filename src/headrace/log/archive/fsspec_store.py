"""Archives at any address that fsspec supports (`s3://`, `gs://`, `memory://` …), and the store of an address.

fsspec is an optional dependency: it is imported when an address needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.errors import HeadraceError
from headrace.log.archive.store import ArchiveStore, FolderStore
from headrace.log.errors import ArchiveUnreachable, ObjectMissing
from headrace.redaction import redacted, scrubbed


def open_store(address: str) -> ArchiveStore:
    """The store at an address; nothing is read or written yet."""
    if "://" not in address:
        return FolderStore(address)
    parts = urlsplit(address)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return FolderStore(unquote(parts.path))
    return FsspecStore(address)


class FsspecStore:
    """A store on a file system of fsspec, which finds credentials and endpoints where it always does."""

    def __init__(self, address: str, **options: Any) -> None:
        try:
            import fsspec
        except ImportError:
            raise HeadraceError(
                f"the archive address {redacted(address)} needs fsspec, which is not installed",
                hint="pip install 'headrace[archive]', or give a folder",
            ) from None
        self.address = redacted(address)
        self._secret_address = address
        try:
            self._files, root = fsspec.core.url_to_fs(address, **options)
        except (ImportError, ValueError) as error:
            # The protocol is unknown, or its package is missing; the text of the error has which.
            raise HeadraceError(
                f"the archive address {self.address} can't be used: {scrubbed(str(error), self._secret_address)}",
                hint="install the package that fsspec needs (s3fs for s3://), or use a folder",
            ) from None
        self._root: str = root.rstrip("/")

    def put_file(self, name: str, path: str) -> None:
        with self._as_unreachable(f"copying {path} to {name}"):
            self._make_parent(name)
            self._files.put_file(path, self._path(name))

    def put(self, name: str, content: bytes) -> None:
        with self._as_unreachable(f"writing {name}"):
            self._make_parent(name)
            self._files.pipe_file(self._path(name), content)

    def read(self, name: str, position: int = 0, count: int | None = None) -> bytes:
        with self._as_unreachable(f"reading {name}"):
            if count == 0:
                return b""
            # An empty object has no byte at which a range could start: a whole object is read without a range.
            start = position or (None if count is None else 0)
            end = None if count is None else position + count
            content: bytes = self._files.cat_file(self._path(name), start=start, end=end)
            return content

    def delete(self, names: Sequence[str]) -> None:
        with self._as_unreachable("deleting"):
            for name in names:
                with suppress(FileNotFoundError):
                    self._files.rm_file(self._path(name))

    def list(self, prefix: str) -> list[tuple[str, int]]:
        with self._as_unreachable(f"listing {prefix}"):
            self._files.invalidate_cache()  # listings are kept otherwise, and may be of yesterday
            found = self._files.find(self._path(prefix.rstrip("/")), detail=True)
            return [(path[len(self._root) + 1 :], int(info["size"])) for path, info in found.items()]

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _make_parent(self, name: str) -> None:
        self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    @contextmanager
    def _as_unreachable(self, what: str) -> Iterator[None]:
        try:
            yield
        # Not `from error`: a trace would show the secrets that the text hides.
        except FileNotFoundError as error:
            text = scrubbed(str(error), self._secret_address)
            raise ObjectMissing(f"{what} in the archive {self.address} failed: there is no {text}") from None
        except Exception as error:  # every file system of fsspec has its own errors
            text = scrubbed(f"{type(error).__name__}: {error}", self._secret_address)
            raise ArchiveUnreachable(
                f"{what} in the archive {self.address} failed: {text}",
                hint="check address, credentials and network; the operation is retried",
            ) from None
