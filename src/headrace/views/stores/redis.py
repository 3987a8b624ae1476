"""Views in Redis: a hash for each row, `users_by_city__2:Oslo`, and the string `users_by_city` with the prefix that is
served. The set `users_by_city__2` lists the keys of all rows. `redis_reader.py` reads them.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.pipeline.sinks.redis_registry import SINKS, fence_key
from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.store import Store
from headrace.views.stores.options import check_options
from headrace.views.stores.redis_reader import RedisReader, connected, gone, reached, sink_entries

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink

ADDRESS = "redis://127.0.0.1:6379/0"
KEYS_PER_REMOVAL = 1_000


class RedisViews(Store):
    def __init__(self, definition: Definition, data_dir: Path) -> None:
        super().__init__(definition, data_dir)
        self._at = definition.at or ADDRESS
        self._client: Any = None

    @property
    def _redis(self) -> Any:
        if self._client is None:
            self._client = connected(self._at)
        return self._client

    def check(self) -> None:
        check_options(self.definition)
        with reached(self._at):
            role = self._redis.execute_command("ROLE")[0]
        if role != b"master":
            raise BadView(
                f"view {self.definition.name}: this Redis is a {role.decode()} and cannot be written",
                hint="--at is the address of the one that it replicates",
            )
        self.served()

    def sink(self, version: int) -> Sink:
        from headrace.pipeline.sinks.redis import Redis

        name = self.definition.physical(version)
        return Redis(name, key=self.definition.key, listed=True, at=self._at)

    def versions(self) -> list[int]:
        with reached(self._at):
            found = {self.definition.version_of(entry.name) for entry in sink_entries(self._redis)}
        return sorted(version for version in found if version is not None)

    def served(self) -> int | None:
        with reached(self._at):
            kind = self._redis.type(self.definition.name)
            text = self._redis.get(self.definition.name) if kind == b"string" else None
        if kind == b"none":
            return None
        version = self.definition.version_of(text.decode(errors="replace")) if text is not None else None
        if version is None:
            raise BadView(
                f"view {self.definition.name}: Redis has another key of this name, a {kind.decode()}",
                hint="give the view another name, or another database with --at redis://HOST:PORT/NUMBER",
            )
        return version

    def switch(self, version: int) -> None:
        if version not in self.versions():
            raise gone(self.definition, version)
        self.served()
        with reached(self._at):
            self._redis.set(self.definition.name, self.definition.physical(version))

    def drop(self, version: int) -> None:
        if self.served() == version:
            raise BadView(
                f"version {version} of view {self.definition.name} is served",
                hint="switch to another one first",
            )
        self._delete(version)

    def drop_view(self) -> None:
        """The name first: a crash leaves versions that nobody is served from, and that a second call deletes."""
        versions = self.versions()
        if self.served() is not None:
            with reached(self._at):
                self._redis.delete(self.definition.name)
        for version in versions:
            self._delete(version)

    def count(self, version: int) -> int:
        with reached(self._at):
            return int(self._redis.scard(self.definition.physical(version)))

    def sample(self, version: int, limit: int) -> list[dict[str, Any]]:
        reader = self.reader(version)
        try:
            return reader.sample(limit)
        finally:
            reader.close()

    def reader(self, version: int) -> RedisReader:
        return RedisReader(self.definition, version, self._at)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _delete(self, version: int) -> None:
        """The rows, then the list of their keys, and the entry that `versions` finds last: a crash in between leaves
        a version that can be dropped again."""
        name = self.definition.physical(version)
        with reached(self._at):
            entries = [entry for entry in sink_entries(self._redis) if entry.name == name]
            for entry in entries:
                # A writer without its fence fails, and a reader knows that the version is being dropped.
                self._redis.delete(fence_key(name, entry.job))
            members = self._redis.sscan_iter(name, count=KEYS_PER_REMOVAL)
            while some := list(itertools.islice(members, KEYS_PER_REMOVAL)):
                self._redis.unlink(*(f"{name}:".encode() + member for member in some))
            self._redis.unlink(name)
            if entries:
                self._redis.hdel(SINKS, *(entry.field for entry in entries))
