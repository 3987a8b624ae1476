"""Chunks of archived segments on the local disk: bounded, least recently used first out, cleared at every start.

Nothing in it is needed: a chunk that is missing, or that does not fit, is read from the archive again.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct


class _Chunk(Struct):
    path: str
    size_bytes: int


class ArchiveCache:
    """May be used from any thread."""

    def __init__(self, directory: str, *, bytes_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._chunks: OrderedDict[str, _Chunk] = OrderedDict()
        self._loading: dict[str, threading.Event] = {}
        self._numbers = itertools.count()
        self._is_ready = False
        self.size_bytes = 0
        self.hits = 0
        self.misses = 0

    def clear(self) -> None:
        """Remove everything, also files of an earlier process, which may be incomplete."""
        with self._lock:
            self._chunks.clear()
            self.size_bytes = 0
            shutil.rmtree(self._directory, ignore_errors=True)
            self._is_ready = False

    def read(self, key: str, position: int, count: int, load: Callable[[], bytes]) -> bytes:
        """Bytes of a chunk, which is loaded if it is missing; readers of the same chunk wait for one load."""
        while True:
            with self._lock:
                fd = self._open(key)
                loading = self._loading.get(key)
                if fd is None and loading is None:
                    self._loading[key] = threading.Event()
            if fd is not None:
                try:
                    return os.pread(fd, count, position)
                finally:
                    os.close(fd)
            if loading is not None:
                loading.wait()
                continue
            return self._load(key, load)[position : position + count]

    def _open(self, key: str) -> int | None:
        chunk = self._chunks.get(key)
        if chunk is None:
            return None
        try:
            fd = os.open(chunk.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._drop(key)
            return None
        self._chunks.move_to_end(key)
        self.hits += 1
        return fd

    def _load(self, key: str, load: Callable[[], bytes]) -> bytes:
        try:
            content = load()
            self._keep(key, content)
            return content
        finally:
            with self._lock:
                self.misses += 1
                self._loading.pop(key).set()

    def _keep(self, key: str, content: bytes) -> None:
        if len(content) > self._bytes_max:
            return
        with self._lock:
            while self._chunks and self.size_bytes + len(content) > self._bytes_max:
                self._drop(next(iter(self._chunks)))
            # Reserved before it is written, so that several writers together keep to the bound.
            self.size_bytes += len(content)
            path = os.path.join(self._directory, f"{next(self._numbers)}.piece")
            if not self._is_ready:
                with suppress(OSError):
                    os.makedirs(self._directory, exist_ok=True)
                    self._is_ready = True
        try:
            with open(path, "wb") as file:
                file.write(content)
        except OSError:
            # A full disk only makes reading slower.
            with suppress(OSError):
                os.unlink(path)
            with self._lock:
                self.size_bytes -= len(content)
            return
        with self._lock:
            self._chunks[key] = _Chunk(path, len(content))

    def _drop(self, key: str) -> None:
        chunk = self._chunks.pop(key)
        self.size_bytes -= chunk.size_bytes
        with suppress(OSError):
            os.unlink(chunk.path)  # readers have it open
