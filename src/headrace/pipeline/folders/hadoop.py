"""A folder in a file system that Hadoop has a client for: HDFS, S3 (`s3a://`) and others, through py4j.

Every call takes a fraction of a millisecond, and the network its time.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors.exceptions.captured import CapturedException

from headrace.pipeline.addresses import OBJECT_STORE_SCHEMES, scheme_of
from headrace.pipeline.errors import BadJob
from headrace.pipeline.folders.folder import FolderUnavailable
from headrace.pipeline.folders.java_hadoop import Hadoop, hadoop_for
from headrace.pipeline.folders.lease import Lease

CONDITIONAL_CREATION = "fs.option.create.conditional.overwrite"
"""Of S3A: a PUT with `If-None-Match: *`."""

_LISTED = re.compile(r"Status\{path=(.*?); isDirectory=")
"""In the text of a list of statuses."""

_LOOKED_IN = ("", "offsets", "commits")
"""Where hidden files are looked for: the folders of the state have thousands of files."""

_MISSING = ("java.io.FileNotFoundException",)
_EXISTS = (
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "java.nio.file.FileAlreadyExistsException",
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
    "org.apache.hadoop.fs.PathIOException",
)


class HadoopFolder:
    def __init__(self, address: str) -> None:
        self._address = address
        self._hadoop: Hadoop | None = None
        self._files: Any = None

    @property
    def address(self) -> str:
        return self._address

    @property
    def name(self) -> str:
        return self._address.rpartition("/")[2]

    @property
    def path(self) -> None:
        return None

    def at(self, name: str) -> HadoopFolder:
        return HadoopFolder(f"{self._address}/{name}")

    def read(self, name: str) -> bytes:
        with self._explained("read", name):
            hadoop, files = self._opened()
            stream = files.open(self._path(name))
            try:
                return bytes(hadoop.jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, name: str, content: bytes) -> None:
        with self._explained("write", name):
            _, files = self._opened()
            if self._is_object_store():
                self._put(files.create(self._path(name), True), content)
            else:
                self._write_beside(name, content, overwrite=True)

    def create(self, name: str, content: bytes) -> bool:
        try:
            with self._explained("write", name):
                _, files = self._opened()
                if self._is_object_store():
                    if self.exists(name):
                        return False
                    creation = files.createFile(self._path(name)).recursive().overwrite(True)
                    self._put(creation.opt(CONDITIONAL_CREATION, True).build(), content)
                else:
                    self._write_beside(name, content, overwrite=False)
        except FileExistsError:
            return False
        return True

    def names(self, name: str = "") -> list[str]:
        with contextlib.suppress(FileNotFoundError), self._explained("list", name):
            hadoop, files = self._opened()
            # A call for each name would take milliseconds for some hundreds of names.
            found = files.listStatusIterator(self._path(name))
            listed = hadoop.jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(found).toString()
            return [path.rpartition("/")[2] for path in _LISTED.findall(listed)]
        return []

    def exists(self, name: str = "") -> bool:
        with self._explained("find", name):
            _, files = self._opened()
            return bool(files.exists(self._path(name)))

    def delete(self, name: str) -> None:
        with self._explained("delete", name):
            _, files = self._opened()
            files.delete(self._path(name), True)

    def clear(self, marker: str, *, keep: str = "") -> None:
        self.delete(marker)
        for name in self.names():
            if name != keep:
                self.delete(name)

    def fill(self, files: Mapping[str, str], marker: str) -> None:
        for name in sorted(files, key=lambda name: name == marker):
            self.write(name, files[name].encode())

    def remove_leftovers(self) -> None:
        """Nothing is beside the folder."""

    def hidden_files(self) -> Iterator[str]:
        for folder in _LOOKED_IN:
            for name in self.names(folder):
                if name.startswith("."):
                    yield f"{folder}/{name}" if folder else name

    def lock(self, name: str) -> Lease:
        return Lease(self.at(name))

    def _opened(self) -> tuple[Hadoop, Any]:
        if self._hadoop is None or self._hadoop.is_gone():
            self._hadoop = hadoop_for(self._address)
            path = self._hadoop.jvm.org.apache.hadoop.fs.Path(self._address)
            self._files = path.getFileSystem(self._hadoop.conf)
        return self._hadoop, self._files

    def _path(self, name: str) -> Any:
        hadoop, _ = self._opened()
        return hadoop.jvm.org.apache.hadoop.fs.Path(f"{self._address}/{name}" if name else self._address)

    def _is_object_store(self) -> bool:
        return scheme_of(self._address) in OBJECT_STORE_SCHEMES

    def _write_beside(self, name: str, content: bytes, *, overwrite: bool) -> None:
        """Under a temporary name, which is then renamed: that is atomic."""
        hadoop, files = self._opened()
        folder, _, file = name.rpartition("/")
        temporary = f".{file}.{uuid.uuid4()}.tmp"
        beside = self._path(f"{folder}/{temporary}" if folder else temporary)
        try:
            self._put(files.create(beside, True), content)
            hadoop.rename(beside, self._path(name), overwrite=overwrite)
        except BaseException:
            with contextlib.suppress(Py4JError):
                files.delete(beside, False)
            raise

    def _put(self, stream: Any, content: bytes) -> None:
        try:
            stream.write(bytearray(content))
        except BaseException:
            with contextlib.suppress(Py4JError):
                stream.abort()
            raise
        stream.close()

    @contextlib.contextmanager
    def _explained(self, action: str, name: str) -> Iterator[None]:
        """Errors of Java as those of Python, and of Headrace."""
        try:
            yield
        except Py4JJavaError as error:
            raise self._as_python(error.java_exception, action, name) from error
        except CapturedException as error:  # in the process of a session, pyspark converts some errors
            raise self._as_python(error._origin, action, name) from error
        except Py4JNetworkError as error:
            raise FolderUnavailable(
                f"cannot {action} {self._address}/{name}: the Java process has ended", hint="start again"
            ) from error

    def _as_python(self, java: Any, action: str, name: str) -> Exception:
        kind = java.getClass().getName()
        place = f"{self._address}/{name}".rstrip("/")
        if kind in _MISSING:
            return FileNotFoundError(place)
        if kind in _EXISTS:
            return FileExistsError(place)
        text = f"cannot {action} {place}: {str(java.toString()).splitlines()[0]}"
        if (
            kind.endswith(("UnsupportedFileSystemException", "ClassNotFoundException"))
            or "No FileSystem" in text
        ):
            return BadJob(
                text, hint="Spark needs the jars of this file system: conf={'spark.jars': …} of session()"
            )
        if kind.endswith("UnknownHostException") or "UnknownHostException" in text:
            return BadJob(text, hint="check the name in the address")
        return FolderUnavailable(text, hint="check that the store is reachable, and the rights of this user")
