"""Which sinks have written to a Redis: the hash `headrace:sinks`. With it a reader finds columns, types and fences.

Hashes in Redis hold texts. `value_of` gives them back their types.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

SINKS = "headrace:sinks"


def fence_key(name: str, job: str) -> str:
    return f"headrace:fence:{name}:{job}"


class RedisSinkEntry(Struct, frozen=True, kw_only=True):
    """One sink of one job."""

    name: str
    job: str
    key: tuple[str, ...]
    columns: str
    """an Arrow schema, serialised, in base64"""

    @classmethod
    def of(cls, name: str, job: str, *, key: tuple[str, ...], columns: pa.Schema) -> RedisSinkEntry:
        plain = columns.remove_metadata()
        return cls(
            name=name, job=job, key=key, columns=base64.b64encode(plain.serialize().to_pybytes()).decode()
        )

    @property
    def field(self) -> str:
        return f"{self.name}/{self.job}"

    @property
    def schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.columns)))

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)


def entries(texts: Iterable[bytes]) -> list[RedisSinkEntry]:
    """From the values of the hash."""
    return [msgspec.json.decode(text, type=RedisSinkEntry) for text in texts]


def value_of(text: bytes | None, kind: pa.DataType) -> Any:
    """The value whose text `redis_commands.texts_of` stored. Inside of nested values, times and the like stay text."""
    if text is None or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return text
    for is_kind, restore in _RESTORE:
        if is_kind(kind):
            return restore(text.decode())
    return text.decode()


_RESTORE: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_boolean, lambda text: text == "true"),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_date, datetime.date.fromisoformat),
    (pa.types.is_timestamp, datetime.datetime.fromisoformat),
    (pa.types.is_duration, lambda text: datetime.timedelta(microseconds=int(text))),
    (pa.types.is_nested, json.loads),
)
