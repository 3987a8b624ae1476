"""Reading one version of a view in Redis. The keys of a version begin with its name, so versions are never mixed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from headrace.kafka.position import Position
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.redis_commands import joined
from headrace.pipeline.sinks.redis_registry import SINKS, RedisSinkEntry, entries, fence_key, value_of
from headrace.redaction import ESCAPE_HINT, redacted, scrubbed
from headrace.views.definition import Definition, Row
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.query.rows import selected
from headrace.views.reader import Reader
from headrace.views.selection import Selection
from headrace.views.stores.row_selection import SCAN_ROWS_MAX, equalities, too_many_rows

RESPONSE_TIMEOUT_S = 10.0
ROWS_PER_REQUEST = 1_000


class RedisReader(Reader):
    def __init__(self, definition: Definition, version: int, at: str) -> None:
        self._definition = definition
        self._version = version
        self._name = definition.physical(version)
        self._at = at
        self._redis = connected(at)
        with reached(at):
            found = [entry for entry in sink_entries(self._redis) if entry.name == self._name]
        if not found:
            raise gone(definition, version)
        self._entry: RedisSinkEntry = found[0]
        self._schema: pa.Schema = self._entry.schema

    def columns(self) -> Sequence[str]:
        return list(self._schema.names)

    def types(self) -> Mapping[str, str]:
        return {field.name: str(field.type) for field in self._schema}

    def position(self) -> Position | None:
        with reached(self._at):
            owner, text = self._redis.hmget(fence_key(self._name, self._entry.job), "owner", "fence")
        if owner is None:
            raise gone(self._definition, self._version)
        return None if text is None else Position.from_fence(Fence.from_json(text.decode()).ends)

    def get(self, key: Row) -> dict[str, Any] | None:
        member = self._member(key)
        rows = self._rows([member] if None not in key.values() else [])
        return rows[0] if rows else None

    def select(self, selection: Selection) -> list[dict[str, Any]]:
        values = equalities(selection)
        if all(name in values for name in self._definition.key):
            row = self.get({name: values[name] for name in self._definition.key})
            rows = [] if row is None else [row]
        else:
            rows = self._rows(self._members())
        return selected(rows, selection)

    def sample(self, limit: int) -> list[dict[str, Any]]:
        with reached(self._at):
            members = self._redis.srandmember(self._name, limit)
        return self._rows(members)

    def close(self) -> None:
        self._redis.close()

    def _member(self, key: Row) -> bytes:
        """The text of a key, as the sink writes it."""
        try:
            if len(key) != len(self._definition.key):
                raise KeyError
            arrays = {
                name: pa.chunked_array([_array(key[name], self._schema.field(name).type)])
                for name in self._definition.key
            }
        except (KeyError, pa.ArrowException, ValueError, TypeError) as error:
            raise BadView(
                f"view {self._definition.name}: {dict(key)} is not a key",
                hint=f"the key is {', '.join(self._definition.key)}, with values of its types",
            ) from error
        return joined(pa.table(arrays), self._definition.key)[0]

    def _members(self) -> list[bytes]:
        with reached(self._at):
            rows = int(self._redis.scard(self._name))
            if rows > SCAN_ROWS_MAX:
                raise too_many_rows(
                    self._definition.name,
                    rows,
                    f"give the key ({' and '.join(f'{name} = …' for name in self._definition.key)}), or create the "
                    "view in a database: --to sqlite or --to postgresql",
                )
            # A set that changes may return a key twice.
            return list(dict.fromkeys(self._redis.sscan_iter(self._name, count=ROWS_PER_REQUEST)))

    def _rows(self, members: Sequence[bytes]) -> list[dict[str, Any]]:
        """Without the keys whose rows are deleted. Fails if the version is dropped meanwhile."""
        found: list[dict[str, Any]] = []
        remaining = iter(members)
        with reached(self._at), self._redis.pipeline(transaction=False) as pipeline:
            while some := list(itertools.islice(remaining, ROWS_PER_REQUEST)):
                for member in some:
                    pipeline.hgetall(f"{self._name}:".encode() + member)
                found += [self._row(hash) for hash in pipeline.execute() if hash]
            is_there = self._redis.hexists(fence_key(self._name, self._entry.job), "owner")
        if not is_there:
            raise gone(self._definition, self._version)
        return found

    def _row(self, hash: dict[bytes, bytes]) -> dict[str, Any]:
        return {field.name: value_of(hash.get(field.name.encode()), field.type) for field in self._schema}


def _array(value: Any, kind: pa.DataType) -> pa.Array:
    """A value of a condition may be the text of its type, such as a date."""
    if isinstance(value, str) and not pa.types.is_string(kind):
        return pa.array([value]).cast(kind)
    return pa.array([value], kind)


def connected(at: str) -> Any:
    """Connects with the first command."""
    try:
        return redis.Redis.from_url(
            at, socket_timeout=RESPONSE_TIMEOUT_S, retry=Retry(NoBackoff(), 0), protocol=2
        )
    except ValueError:
        # The library's message would quote a part of the password.
        raise BadView(
            f"{redacted(at)} is not an address of Redis", hint=f"redis://HOST:PORT/0; {ESCAPE_HINT}"
        ) from None


@contextlib.contextmanager
def reached(at: str) -> Iterator[None]:
    try:
        yield
    except redis.AuthenticationError as error:
        raise BadView(
            f"Redis at {redacted(at)} rejects the user: {scrubbed(str(error), at)}",
            hint="give user and password in --at redis://USER:PASSWORD@HOST:PORT/0",
        ) from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise ViewUnavailable(
            f"no response from Redis at {redacted(at)}: {scrubbed(str(error), at)}",
            hint="is it running, and is --at its address?",
        ) from error
    except redis.RedisError as error:
        raise BadView(
            f"Redis at {redacted(at)} rejects a command: {scrubbed(str(error), at)}",
            hint="check the permissions of the user and the settings of the server",
        ) from error


def sink_entries(client: Any) -> list[RedisSinkEntry]:
    return entries(client.hvals(SINKS))


def gone(definition: Definition, version: int) -> ViewUnavailable:
    return ViewUnavailable(
        f"Redis has no version {version} of view {definition.name}",
        hint="read the view again if another version is served by now; else start its job",
    )
