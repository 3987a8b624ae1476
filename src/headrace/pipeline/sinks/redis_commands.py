"""Turns the rows of a batch into Redis commands. No connection here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.pipeline.sinks import changes
from headrace.pipeline.sinks.json_text import is_nested, json_column
from headrace.pipeline.sinks.sink import RejectedRow

Word = bytes | str | int | float


class Command(Struct, frozen=True, kw_only=True):
    """One command, and the row that it is for."""

    words: tuple[Word, ...]
    row: Callable[[], Mapping[str, Any]]


class RedisLayout(Struct, frozen=True, kw_only=True):
    """Where in Redis the rows of one sink are."""

    name: str
    key: tuple[str, ...]
    score: str | None
    per: tuple[str, ...]
    order_by: str | None
    expire_s: int | None
    listed: bool = False
    """Whether the set `name` lists the hashes. A key is added before its hash and removed after it: if a crash is in
    between, a hash is never missing in the list."""

    def commands(self, rows: pa.Table) -> tuple[list[Command], list[RejectedRow]]:
        """The commands for the rows, and the rows that are rejected."""
        rows, rejected = self._without_nulls(rows)
        identity = [*self.per, *self.key]
        collapsed = changes.collapse(rows, key=identity, order_by=self.order_by)
        if self.score is None:
            found = [*self._hash_deletes(collapsed), *self._hash_upserts(collapsed, rows)]
        else:
            found = [*self._set_deletes(collapsed), *self._set_upserts(collapsed)]
        return found, rejected

    def patterns(self) -> list[str]:
        """Patterns that match all keys of this sink."""
        escaped = "".join(f"\\{each}" if each in "*?[]\\^" else each for each in self.name)
        return [escaped, f"{escaped}:*"]

    # Hashes

    def _hash_upserts(self, collapsed: changes.Changes, rows: pa.Table) -> Iterator[Command]:
        upserts = collapsed.upserts
        names = upserts.column_names
        columns = [texts_of(upserts[name]) for name in names]
        for index, (place, row) in enumerate(
            zip(self._places(upserts, self.key), zip(*columns, strict=True), strict=True)
        ):
            source = partial(_row, upserts, index)
            if self.listed:
                yield Command(words=("SADD", self.name, self._listed_key(place)), row=source)
            filled = [word for pair in zip(names, row, strict=True) if pair[1] is not None for word in pair]
            yield Command(words=("HSET", place, *filled), row=source)
            if None in row:
                absent = [name for name, text in zip(names, row, strict=True) if text is None]
                yield Command(words=("HDEL", place, *absent), row=source)
            if self.expire_s is not None:
                yield Command(words=("EXPIRE", place, self.expire_s), row=source)

    def _hash_deletes(self, collapsed: changes.Changes) -> Iterator[Command]:
        deletes = collapsed.deletes
        for index, place in enumerate(self._places(deletes, self.key)):
            yield Command(words=("DEL", place), row=partial(_row, deletes, index))
            if self.listed:
                words = ("SREM", self.name, self._listed_key(place))
                yield Command(words=words, row=partial(_row, deletes, index))

    # Sorted sets

    def _set_upserts(self, collapsed: changes.Changes) -> Iterator[Command]:
        upserts = collapsed.upserts
        assert self.score is not None
        scores = upserts[self.score].cast(pa.float64()).to_pylist()
        sets = list(self._places(upserts, self.per))
        for index, (place, member, score) in enumerate(
            zip(sets, joined(upserts, self.key), scores, strict=True)
        ):
            yield Command(words=("ZADD", place, repr(score), member), row=partial(_row, upserts, index))
        if self.expire_s is not None:
            for place, index in {place: index for index, place in enumerate(sets)}.items():
                yield Command(words=("EXPIRE", place, self.expire_s), row=partial(_row, upserts, index))

    def _set_deletes(self, collapsed: changes.Changes) -> Iterator[Command]:
        deletes = collapsed.deletes
        members = zip(self._places(deletes, self.per), joined(deletes, self.key), strict=True)
        for index, (place, member) in enumerate(members):
            yield Command(words=("ZREM", place, member), row=partial(_row, deletes, index))

    # Places

    def _places(self, rows: pa.Table, columns: tuple[str, ...]) -> Iterator[bytes]:
        name = self.name.encode()
        if not columns:
            yield from (name for _ in range(rows.num_rows))
            return
        yield from (name + b":" + each for each in joined(rows, columns))

    def _listed_key(self, place: bytes) -> bytes:
        return place[len(self.name.encode()) + 1 :]

    def _without_nulls(self, rows: pa.Table) -> tuple[pa.Table, list[RejectedRow]]:
        """Reject rows without a key, and rows without a score in a sorted set."""
        rejected: list[RejectedRow] = []
        for name in (*self.per, *self.key, *filter(None, (self.score,))):
            is_missing = pc.is_null(rows[name], nan_is_null=True)
            if name == self.score and changes.has_op(rows.schema):
                op = rows[changes.OP]
                is_delete = pc.is_in(op, value_set=pa.array(changes.RETRACTIONS, op.type))
                is_missing = pc.and_(is_missing, pc.invert(is_delete))
            rows, found = changes.without_bad(rows, is_missing, f"{name} is null")
            rejected += found
        return rows, rejected


def texts_of(column: pa.ChunkedArray) -> list[bytes | None]:
    """What Redis stores of each value: its text, as in JSON; bytes as they are."""
    kind = column.type
    if is_nested(kind):
        column = json_column(column)
    elif pa.types.is_timestamp(kind):
        column = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ" if kind.tz else "%Y-%m-%dT%H:%M:%S")
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.string())
    texts: list[bytes | None] = column.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()
    return texts


def joined(rows: pa.Table, columns: tuple[str, ...]) -> list[bytes]:
    """Several values as one, with `:` between them; a `:` within a value is escaped, so that no two are the same."""
    texts = [texts_of(rows[name]) for name in columns]
    if len(texts) == 1:
        return [each or b"" for each in texts[0]]
    return [b":".join(map(_escaped, each)) for each in zip(*texts, strict=True)]


def _escaped(text: bytes | None) -> bytes:
    return (text or b"").replace(b"\\", b"\\\\").replace(b":", b"\\:")


def _row(rows: pa.Table, index: int) -> Mapping[str, Any]:
    row: Mapping[str, Any] = rows.slice(index, 1).to_pylist()[0]
    return row
